-- Moves between indexes. They are gathered here, and flush makes them with few calls.
local added, taken, counted, told = {}, {}, {}, {}

-- most is how many values one call gets; Lua's stack has room for 8000.
local most = 4000

local function append(lists, key, a, b)
  local list = lists[key]
  if not list then
    list = {}
    lists[key] = list
  end
  list[#list + 1] = a
  if b then list[#list + 1] = b end
end

local function put(key, score, member) append(added, key, score, member) end
local function take(key, member) append(taken, key, member) end

local function count(state, lane, n)
  local field = state .. ':' .. lane
  counted[field] = (counted[field] or 0) + n
end

local ended = {succeeded = true, failed = true, cancelled = true, collapsed = true}

-- place is the index of a job in the state, and what stands there for it.
local function place(state, lane, priority, session, id)
  if state == 'pending' then return 'ready:' .. priority .. ':' .. lane, id end
  if state == 'scheduled' or state == 'blocked' then return state, id end
  if state == 'claimed' or state == 'running' then return 'owned', session .. '/' .. id end
  return 'done:' .. state .. ':' .. lane, id
end

local function tenant(lane) return 'jobs:' .. string.match(lane, '^[^/]*') end

-- tell notes a change for the stream. spec is without payload, status without result; '' for one that is gone.
local function tell(before, spec, status)
  local n = #told
  told[n + 1], told[n + 2], told[n + 3], told[n + 4] = before, spec, 'status', status
end

local function each(command, lists)
  for key, list in pairs(lists) do
    for i = 1, #list, most do
      redis.call(command, p .. key, unpack(list, i, math.min(i + most - 1, #list)))
    end
  end
end

local function flush()
  each('ZREM', taken)
  each('ZADD', added)
  for key in pairs(added) do
    if string.sub(key, 1, 6) == 'ready:' then redis.call('SADD', p .. 'bands', string.sub(key, 7)) end
  end
  for key in pairs(taken) do
    if string.sub(key, 1, 6) == 'ready:' and redis.call('EXISTS', p .. key) == 0 then
      redis.call('SREM', p .. 'bands', string.sub(key, 7))
    end
  end
  for field, n in pairs(counted) do
    if n ~= 0 and redis.call('HINCRBY', p .. 'counts', field, n) == 0 then redis.call('HDEL', p .. 'counts', field) end
  end
end

-- log appends what was told to the stream, in entries of at most 50 changes, and drops what lies
-- more than keep changes back. An entry's id is the number of its last change.
local keep = 100000

local function log(by, claim)
  for i = 1, #told, 200 do
    local j = math.min(i + 199, #told)
    local n = (j - i + 1) / 4
    local last = redis.call('INCRBY', p .. 'changed', n)
    local head = {'by', by, 'n', n}
    if j < #told then head[5], head[6] = 'more', '1' end
    if claim then head[#head + 1], head[#head + 2] = 'claim', claim end
    for k = i, j do head[#head + 1] = told[k] end
    redis.call('XADD', p .. 'changes', 'MINID', '~', plain(math.max(last - keep, 0)) .. '-0', plain(last) .. '-0', unpack(head))
  end
end
