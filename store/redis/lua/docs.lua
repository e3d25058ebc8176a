-- Documents of a kind. ARGV: kind, first and last of their keys as ZRANGE has them, how many; returns keys and contents.
local keys = redis.call('ZRANGE', p .. 'keys:' .. ARGV[1], ARGV[2], ARGV[3], 'BYLEX', 'LIMIT', 0, ARGV[4])
local reply = {}
for i = 1, #keys, 4000 do
  local last = math.min(i + 3999, #keys)
  for k, doc in ipairs(redis.call('HMGET', p .. 'doc:' .. ARGV[1], unpack(keys, i, last))) do
    reply[#reply + 1], reply[#reply + 2] = keys[i + k - 1], doc
  end
end
return reply
