from hocket.adapters.sb3_buffer import CounterfactualDictReplayBuffer as CounterfactualDictReplayBuffer
from hocket.adapters.sb3_buffer import CounterfactualReplayBuffer as CounterfactualReplayBuffer
from hocket.adapters.sb3_weights import get_weights as get_weights
from hocket.adapters.sb3_weights import join_weights as join_weights
from hocket.adapters.sb3_weights import set_weights as set_weights
from hocket.adapters.sb3_weights import split_weights as split_weights

weights_of = get_weights
