"""hocket's worlds and machines in the terms of other libraries; needs the extra `gym`."""
