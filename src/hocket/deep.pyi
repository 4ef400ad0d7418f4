from hocket.adapters.plane import Disc as Disc
from hocket.adapters.plane import Plane as Plane
from hocket.adapters.plane_tasks import buttons_plane as buttons_plane
from hocket.adapters.plane_tasks import individual_in_plane as individual_in_plane
from hocket.adapters.plane_tasks import plane_from_task as plane_from_task
from hocket.adapters.plane_tasks import scene_in_plane as scene_in_plane
from hocket.adapters.plane_tasks import team_in_plane as team_in_plane
from hocket.adapters.sb3_buffer import CounterfactualDictReplayBuffer as CounterfactualDictReplayBuffer
from hocket.adapters.sb3_buffer import CounterfactualReplayBuffer as CounterfactualReplayBuffer
from hocket.adapters.sb3_weights import get_weights as get_weights
from hocket.adapters.sb3_weights import join_weights as join_weights
from hocket.adapters.sb3_weights import set_weights as set_weights
from hocket.adapters.sb3_weights import split_weights as split_weights

weights_of = get_weights
plane_of = plane_from_task
