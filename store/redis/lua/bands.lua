-- The bands with jobs: name, number of jobs, score of the first, of each.
local reply = {}
for _, band in ipairs(redis.call('SMEMBERS', p .. 'bands')) do
  local key = p .. 'ready:' .. band
  local head = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  if head[2] then
    local n = #reply
    reply[n + 1], reply[n + 2], reply[n + 3] = band, plain(redis.call('ZCARD', key)), head[2]
  end
end
return reply
