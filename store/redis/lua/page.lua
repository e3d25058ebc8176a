-- A page of an index by time. ARGV: index, score and member after which it begins ('' for its
-- begin), 1 when it goes downwards, how many; returns members and scores.
local key, score, member, down, n = p .. ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1', tonumber(ARGV[5])
local from = 0 -- rank of the first of the page; downwards, the rank above it
if score == '' then
  if down then from = redis.call('ZCARD', key) end
else
  local low = redis.call('ZCOUNT', key, '-inf', '(' .. score)
  local high = low + redis.call('ZCOUNT', key, score, score)
  while low < high do -- ends at the first rank behind the member; downwards, at the member's own
    local mid = math.floor((low + high) / 2)
    local there = redis.call('ZRANGE', key, mid, mid)[1]
    if there < member or (there == member and not down) then low = mid + 1 else high = mid end
  end
  from = low
end
if not down then return redis.call('ZRANGE', key, from, from + n - 1, 'WITHSCORES') end
if from == 0 then return {} end
local page = redis.call('ZRANGE', key, math.max(from - n, 0), from - 1, 'WITHSCORES')
local reply = {}
for i = #page - 1, 1, -2 do reply[#reply + 1], reply[#reply + 2] = page[i], page[i + 1] end
return reply
