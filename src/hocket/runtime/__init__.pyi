from hocket.runtime.exhaustive import search_all as search_all
from hocket.runtime.plan import Plan as Plan
from hocket.runtime.protocol import Participant as Participant
from hocket.runtime.simulation import simulate as simulate
