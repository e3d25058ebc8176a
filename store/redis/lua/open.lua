-- Greets: makes an entry in the stream from which on this server follows it, and notes which run of Redis it found.
--
--   ARGV  by, floor, run id of Redis; returns the entry's id, the time, and since when this run is known, 0 for ever.
local now = plain(clock(ARGV[2]))
local run = redis.call('HGET', p .. 'server', 'run')
if run ~= ARGV[3] then redis.call('HSET', p .. 'server', 'run', ARGV[3], 'since', run and now or '0') end
local id = plain(redis.call('INCRBY', p .. 'changed', 1)) .. '-0'
redis.call('XADD', p .. 'changes', id, 'by', ARGV[1], 'n', 1, 'none', 1)
return {id, now, redis.call('HGET', p .. 'server', 'since')}
