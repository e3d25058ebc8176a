-- Moves between indexes. They are gathered here, and flush makes them with few calls.
local added, taken, counted = {}, {}, {}
local befores, told = {}, {} -- of the changes: the states before; spec and status, one after the other

-- most is how many values one call gets; Lua's stack has room for 8000.
local most = 4000

local function line(lists, key)
  local list = lists[key]
  if not list then
    list = {}
    lists[key] = list
  end
  return list
end

local function put(key, score, member)
  local list = line(added, key)
  local n = #list
  list[n + 1], list[n + 2] = score, member
end

local function take(key, member)
  local list = line(taken, key)
  list[#list + 1] = member
end

local ended = {succeeded = true, failed = true, cancelled = true, collapsed = true}
local owned = {claimed = true, running = true}

-- How a job stands is a line in its field at: REV STATE PRIORITY RESULT OWNER LANE. RESULT is 'r'
-- when it has one. OWNER is a session, or of a claim that no status tells of yet TIME/SESSION/WORKER.
-- Where there is nothing to say stands '-'.
--
-- A spot is what many jobs have in common: where those of a state, priority, owner and lane stand.
local function spot(state, priority, owner, lane)
  local s = {state = state, priority = priority, lane = lane, ended = ended[state], before = ' ' .. state .. ' ' .. priority .. ' ',
    behind = ' ' .. owner .. ' ' .. lane, tenant = 'jobs:' .. string.match(lane, '^[^/]*'), n = 0}
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

-- stands writes how a job at a spot stands.
local function stands(s, rev, result)
  if result then return rev .. s.before .. 'r' .. s.behind end
  return rev .. s.before .. '-' .. s.behind
end

local spots = {} -- by what follows the revision

-- standing reads how a job stands: its revision, its spot, and whether it has a result.
local function standing(at)
  local rev, rest = string.match(at, '^(%d+) (.*)$')
  local s = spots[rest]
  if not s then
    local state, priority, result, owner, lane = string.match(rest, '^(%S+) (%S+) (%S+) (%S+) (.*)$')
    s = spot(state, priority, owner, lane)
    s.result = result == 'r'
    spots[rest] = s
  end
  return rev, s
end

-- count notes how many jobs are more at a spot, or fewer.
local function count(s, n) counted[s] = counted[s] + n end

-- tell notes a change for the stream. spec is without payload, status without result; '' for one that is gone.
local function tell(before, spec, status)
  local n = #told
  befores[#befores + 1], told[n + 1], told[n + 2] = before, spec, status
end

local function each(command, lists)
  for key, list in pairs(lists) do
    for i = 1, #list, most do
      redis.call(command, p .. key, unpack(list, i, math.min(i + most - 1, #list)))
    end
  end
end

-- listed are the sets that tell which indexes of a group are not empty.
local listed = {ready = 'bands', jobs = 'tenants'}

local function flush()
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

local function log(by, claim)
  local n = #befores
  if n == 0 then return end
  local last = redis.call('INCRBY', p .. 'changed', n)
  local id, least = plain(last) .. '-', plain(math.max(last - keep, 0)) .. '-0'
  for i = 1, n, 50 do
    local j = math.min(i + 49, n)
    redis.call('XADD', p .. 'details', 'MINID', '~', least, id .. (i - 1) / 50, 'before', table.concat(befores, ' ', i, j), 'claim', claim or '',
      unpack(told, 2 * i - 1, 2 * j))
  end
  redis.call('XADD', p .. 'changes', 'MINID', '~', least, id .. '0', 'by', by, 'n', n)
end
