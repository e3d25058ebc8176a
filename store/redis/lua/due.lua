-- What is due. ARGV: floor, limit; returns the time, then of timers, sessions and purges the
-- members that have passed, and the score of the one that follows.
local now = clock(ARGV[1])
local limit = tonumber(ARGV[2])
local reply = {plain(now)}
for _, key in ipairs({'scheduled', 'leases', 'purge'}) do
  local passed = redis.call('ZRANGEBYSCORE', p .. key, '-inf', plain(now), 'LIMIT', 0, limit)
  local following
  if #passed == limit then
    following = redis.call('ZRANGE', p .. key, limit, limit, 'WITHSCORES')[2]
  else
    following = redis.call('ZRANGEBYSCORE', p .. key, '(' .. plain(now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  end
  reply[#reply + 1] = passed
  reply[#reply + 1] = following or ''
end
return reply
