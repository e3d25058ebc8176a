-- Moves the first jobs of bands to a session. How a job stands after it is not written as a
-- status: the claim is noted beside the old one, and who reads the job applies it.
--
--   ARGV  by (of the stream), floor, session, claimer, then priority, lane and number of each take
--
-- returns 'ok', the time, and how it stands, spec, payload, status and result of each job; or 'lost'.
local session = ARGV[3]
if not redis.call('ZSCORE', p .. 'leases', session) then return {'lost'} end
local now = plain(clock(ARGV[2]))
local owner = now .. '/' .. session .. '/' .. ARGV[4]
local reply = {'ok', now}
for at = 5, #ARGV, 3 do
  local priority, lane = ARGV[at], ARGV[at + 1]
  local from, to = spot('pending', priority, '-', lane), spot('claimed', priority, owner, lane)
  local popped = redis.call('ZPOPMIN', p .. from.key, ARGV[at + 2])
  for i = 1, #popped, 2 do
    local id = popped[i]
    local key = p .. 'job:' .. id
    local job = redis.call('HMGET', key, 'at', 'spec', 'payload', 'status', 'result')
    if job[1] then
      local stands = stands(to, plain(string.match(job[1], '^%d+') + 1), job[5])
      redis.call('HSET', key, 'at', stands)
      put('owned', '0', member(to, id))
      tell('pending', job[2], job[4])
      local n = #reply
      reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = stands, job[2], job[3] or '', job[4], job[5] or ''
      count(to, 1)
    end
    count(from, -1)
  end
  if #popped > 0 and redis.call('EXISTS', p .. from.key) == 0 then
    redis.call('SREM', p .. 'bands', priority .. ':' .. lane)
  end
end
flush()
log(ARGV[1], owner)
return reply
