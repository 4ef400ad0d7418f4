import hocket
from hocket.adapters.batched import BatchedMachines as BatchedMachines
from hocket.adapters.batched import BatchedState as BatchedState
from hocket.adapters.batched import batched as batched
from hocket.adapters.convert import to_parallel as to_parallel
from hocket.adapters.events import IndividualStep as IndividualStep
from hocket.adapters.events import RawStep as RawStep
from hocket.adapters.individual import individual_env as individual_env
from hocket.adapters.individual import individual_vector_env as individual_vector_env
from hocket.adapters.policies import play_episode as play_episode
from hocket.adapters.policies import play_tests as play_tests
from hocket.adapters.team import team_env as team_env
from hocket.adapters.team_vector import team_vector_env as team_vector_env
from hocket.adapters.wrap import IndividualView as IndividualView
from hocket.adapters.wrap import WrappedTeam as WrappedTeam
from hocket.adapters.wrap import wrap as wrap

individual_envs = individual_vector_env
team_envs = team_vector_env
parallel = to_parallel
review_team = play_tests
Area = hocket.Area
Scene = hocket.Scene
Record = hocket.Record
Review = hocket.TestSummary
Trials = hocket.TestEpisodes
save_records = hocket.save_records
