"""What runs behind the requests: the queue, its runner and the worker process."""
