-- Moves the first jobs of bands to a session. How a job stands after it is not written as a
-- status: the claim is noted before the old one, and who reads the job applies it.
--
--   ARGV  by (of the stream), floor, session, claimer, then priority, lane and number of each take
--
-- returns 'ok', the time, and spec with payload, and status with result of each job; or 'lost'.
local session = ARGV[3]
if not redis.call('ZSCORE', p .. 'leases', session) then return {'lost'} end
local now = plain(clock(ARGV[2]))
local owner = now .. '/' .. session .. '/' .. ARGV[4]
local reply = {'ok', now}
for at = 5, #ARGV, 3 do
  local priority, lane = ARGV[at], ARGV[at + 1]
  local from, to = spot('pending', priority, '-', lane), spot('claimed', priority, owner, lane)
  local stands = ' claimed ' .. priority .. ' ' .. owner .. ' ' .. lane
  local popped = redis.call('ZPOPMIN', p .. from.key, ARGV[at + 2])
  local keys = {}
  for i = 1, #popped, 2 do
    keys[i], keys[i + 1] = p .. 'job:' .. popped[i], p .. 'status:' .. popped[i]
  end
  local found = all(keys)
  for i = 1, #popped, 2 do
    local id, spec, status = popped[i], found[i], found[i + 1]
    if spec and status then
      local rev, behind = string.match(status, '^(%d+)[^\n]*()')
      status = plain(rev + 1) .. stands .. string.sub(status, behind)
      write(keys[i + 1], status)
      put('owned', '0', member(to, id))
      tell('pending', leanSpec(spec), leanStatus(status))
      reply[#reply + 1], reply[#reply + 2] = spec, status
      count(to, 1)
    end
    count(from, -1)
  end
  if #popped > 0 and redis.call('EXISTS', p .. from.key) == 0 then
    redis.call('SREM', p .. 'bands', priority .. ':' .. lane)
  end
end
flush()
log(ARGV[1])
return reply
