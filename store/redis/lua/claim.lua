-- Moves the first jobs of bands to a session. How a job stands after it is not written as a
-- status: the claim is noted beside the old one, and who reads the job applies it.
--
--   ARGV  by (of the stream), floor, session, claimer, then band and number of each take
--
-- returns 'ok', the time, and spec, payload, status and result of each job; or 'lost'.
local session = ARGV[3]
if not redis.call('ZSCORE', p .. 'leases', session) then return {'lost'} end
local now = plain(clock(ARGV[2]))
local claim = now .. ' ' .. session .. ' ' .. ARGV[4]
local reply = {'ok', now}
local emptied = {}
for at = 5, #ARGV, 2 do
  local band = ARGV[at]
  local popped = redis.call('ZPOPMIN', p .. 'ready:' .. band, ARGV[at + 1])
  local lane = string.match(band, ':(.*)$')
  for i = 1, #popped, 2 do
    local id = popped[i]
    local key = p .. 'job:' .. id
    local job = redis.call('HMGET', key, 'rev', 'spec', 'payload', 'status', 'result')
    if job[1] then
      redis.call('HSET', key, 'state', 'claimed', 'rev', plain(job[1] + 1), 'session', session, 'claim', claim)
      put('owned', 0, session .. '/' .. id)
      tell('pending', job[2], job[4])
      local n = #reply
      reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = job[2], job[3] or '', job[4], job[5] or ''
      count('claimed', lane, 1)
    end
    count('pending', lane, -1)
  end
  if #popped > 0 and redis.call('EXISTS', p .. 'ready:' .. band) == 0 then redis.call('SREM', p .. 'bands', band) end
end
flush()
log(ARGV[1], claim)
return reply
