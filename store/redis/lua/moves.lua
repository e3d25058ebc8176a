-- Moves between indexes. They are gathered here, and flush makes them with few calls.
local added, taken, counted = {}, {}, {} -- added and taken by the index; n is how long each list is
local written = {n = 0} -- keys and values
local befores, told = {n = 0}, {} -- of the changes: the states before; spec and status, one after the other

-- most is how many values one call gets; Lua's stack has room for 8000.
local most = 4000

local function line(lists, key)
  local list = lists[key]
  if not list then
    list = {n = 0}
    lists[key] = list
  end
  return list
end

local function put(key, score, member)
  local list = line(added, key)
  local n = list.n
  list[n + 1], list[n + 2], list.n = score, member, n + 2
end

local function take(key, member)
  local list = line(taken, key)
  local n = list.n + 1
  list[n], list.n = member, n
end

local function write(key, value)
  local n = written.n
  written[n + 1], written[n + 2], written.n = key, value, n + 2
end

local ended = {succeeded = true, failed = true, cancelled = true, collapsed = true}
local owned = {claimed = true, running = true}

-- How a job stands is the first line of its status: REV STATE PRIORITY OWNER LANE. OWNER is '-', or a session, or
-- of a claim that the status behind the line does not tell of yet TIME/SESSION/WORKER.
--
-- A spot is what many jobs have in common: where those of a state, priority, owner and lane stand.
local function spot(state, priority, owner, lane)
  local s = {state = state, lane = lane, ended = ended[state], tenant = 'jobs:' .. string.match(lane, '^[^/]*')}
  counted[s] = 0
  if state == 'pending' then
    s.key = 'ready:' .. priority .. ':' .. lane
  elseif owned[state] then
    s.key, s.session = 'owned', (string.match(owner, '^[^/]*/([^/]*)') or owner) .. '/'
  elseif state == 'scheduled' or state == 'blocked' then
    s.key = state
  else
    s.key = 'done:' .. state .. ':' .. lane
  end
  return s
end

-- member is what stands for a job at its spot.
local function member(s, id)
  if s.session then return s.session .. id end
  return id
end

local spots = {} -- by what follows the revision

-- standing reads how a job stands: its revision and its spot.
local function standing(status)
  local rev, rest = string.match(status, '^(%d+) ([^\n]*)')
  local s = spots[rest]
  if not s then
    s = spot(string.match(rest, '^(%S+) (%S+) (%S+) (.*)$'))
    spots[rest] = s
  end
  return rev, s
end

-- Of a spec the stream need not have the payload, which may follow it, and of a status not the result. A small one may stay.
local small = 1024

local function leanSpec(text)
  if #text <= small then return text end
  local length, from = string.match(text, '^(%d+) ()')
  return string.sub(text, 1, from + length - 1)
end

local function leanStatus(text)
  if #text <= small then return text end
  local length, from = string.match(text, '^[^\n]*\n(%d+) ()')
  return string.sub(text, 1, from + length - 1)
end

-- all reads the values of keys.
local function all(keys)
  local values = {}
  for i = 1, #keys, most do
    local part = redis.call('MGET', unpack(keys, i, math.min(i + most - 1, #keys)))
    for k = 1, #part do values[i + k - 1] = part[k] end
  end
  return values
end

-- count notes how many jobs are more at a spot, or fewer.
local function count(s, n) counted[s] = counted[s] + n end

-- tell notes a change for the stream. The status of one that is gone is ''.
local function tell(before, spec, status)
  local n = befores.n + 1
  befores[n], befores.n, told[2 * n - 1], told[2 * n] = before, n, spec, status
end

local function each(command, lists)
  for key, list in pairs(lists) do
    for i = 1, list.n, most do
      redis.call(command, p .. key, unpack(list, i, math.min(i + most - 1, list.n)))
    end
  end
end

-- listed are the sets that tell which indexes of a group are not empty.
local listed = {ready = 'bands', jobs = 'tenants'}

local function flush()
  for i = 1, written.n, most do redis.call('MSET', unpack(written, i, math.min(i + most - 1, written.n))) end
  each('ZREM', taken)
  each('ZADD', added)
  for key in pairs(added) do
    local group, name = string.match(key, '^(%l+):(.*)$')
    if listed[group] then redis.call('SADD', p .. listed[group], name) end
  end
  for key in pairs(taken) do
    local group, name = string.match(key, '^(%l+):(.*)$')
    if listed[group] and redis.call('EXISTS', p .. key) == 0 then redis.call('SREM', p .. listed[group], name) end
  end
  local sums = {}
  for s, n in pairs(counted) do
    local field = s.state .. ':' .. s.lane
    sums[field] = (sums[field] or 0) + n
  end
  for field, n in pairs(sums) do
    if n ~= 0 and redis.call('HINCRBY', p .. 'counts', field, n) == 0 then redis.call('HDEL', p .. 'counts', field) end
  end
end

-- log appends what was told to the streams, and drops what lies more than keep changes back. The stream of changes says
-- whose they are and how many. They are told in details, in entries of at most 50; an entry's id is the number of the
-- last change of the call, and behind the dash its own.
local keep = 100000

local function log(by)
  local n = befores.n
  if n == 0 then return end
  local last = redis.call('INCRBY', p .. 'changed', n)
  local id, least = plain(last) .. '-', plain(math.max(last - keep, 0)) .. '-0'
  for i = 1, n, 50 do
    local j = math.min(i + 49, n)
    redis.call('XADD', p .. 'details', 'MINID', '~', least, id .. (i - 1) / 50, 'before', table.concat(befores, ' ', i, j),
      unpack(told, 2 * i - 1, 2 * j))
  end
  redis.call('XADD', p .. 'changes', 'MINID', '~', least, id .. '0', 'by', by, 'n', n)
end
