from hocket.runtime.agent import Agent as Agent
from hocket.runtime.launch import run_team as run_team
from hocket.runtime.plan import Plan as Plan
from hocket.runtime.protocol import Participant as Participant
from hocket.runtime.recording import verify as verify
from hocket.runtime.simulation import search_all as search_all
from hocket.runtime.simulation import simulate as simulate
from hocket.runtime.transport import make_keys as make_keys
