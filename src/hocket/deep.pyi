from hocket.adapters.sb3 import CounterfactualDictReplayBuffer as CounterfactualDictReplayBuffer
from hocket.adapters.sb3 import CounterfactualReplayBuffer as CounterfactualReplayBuffer
from hocket.adapters.sb3 import get_weights as get_weights
from hocket.adapters.sb3 import join_weights as join_weights
from hocket.adapters.sb3 import set_weights as set_weights
from hocket.adapters.sb3 import split_weights as split_weights

weights_of = get_weights
