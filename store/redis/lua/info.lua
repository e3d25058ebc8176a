-- What Redis says of itself. As a script it is asked of the node that has the keys.
return redis.call('INFO')
