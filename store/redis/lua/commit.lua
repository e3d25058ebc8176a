-- A batch: first all that it expects is looked at, then all is written.
--
--   ARGV  by, floor, whether ids are checked, then how many spots, inserts, updates, removals and documents, whether watchers
--         are told of the documents, then those:
--     spot      state, priority, session or '-', lane
--     insert    id, number of its spot, time, spec and payload, how it stands with status and result
--     update    id, expected rev, number of its spot, time, spec, how it stands with status and result
--     removal   id, expected rev
--     document  kind, key, expected rev ('any'), 'write' or 'remove', value, session ('' when it is none), lease
--
-- returns 'ok', the state before of each update, and state before and spec with payload of each removal;
-- or 'conflict', what, key and its revision.
local there, inserts, updates, removals, docs =
  tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local arg = 10
local new = {} -- spots by their number, as the arguments have it
for i = 1, there do
  new[tostring(i)] = spot(unpack(ARGV, arg, arg + 3))
  arg = arg + 4
end
local job, status = p .. 'job:', p .. 'status:'
local firstUpdate = arg + 5 * inserts
local firstRemoval = firstUpdate + 6 * updates
local firstDoc = firstRemoval + 2 * removals

if ARGV[3] == '1' then
  for at = arg, firstUpdate - 1, 5 do
    if redis.call('EXISTS', job .. ARGV[at]) == 1 then return {'conflict', 'job', ARGV[at], 'any'} end
  end
end

-- expect looks at the revisions of jobs, and returns their spots.
local function expect(first, last, step)
  local keys = {}
  for at = first, last, step do keys[#keys + 1] = status .. ARGV[at] end
  local olds = all(keys)
  for i = 1, #keys do
    local at = first + (i - 1) * step
    if not olds[i] then return nil, {'conflict', 'job', ARGV[at], '0'} end
    local rev, s = standing(olds[i])
    if rev ~= ARGV[at + 1] then return nil, {'conflict', 'job', ARGV[at], rev} end
    olds[i] = s
  end
  return olds
end

local updated, conflict = expect(firstUpdate, firstRemoval - 1, 6)
if conflict then return conflict end
local removed, conflict = expect(firstRemoval, firstDoc - 1, 2)
if conflict then return conflict end
local revs = {} -- of the documents
for i = 1, docs do
  local at = firstDoc + 7 * (i - 1)
  local doc = redis.call('HGET', p .. 'doc:' .. ARGV[at], ARGV[at + 1])
  local rev = doc and string.match(doc, '^%d+') or '0'
  if ARGV[at + 2] ~= 'any' and ARGV[at + 2] ~= rev then return {'conflict', ARGV[at], ARGV[at + 1], rev} end
  revs[i] = tonumber(rev)
end

-- Removals are written first: they need no memory, and so go on when Redis has none left.
local reply = {'ok'}
local keys = {}
for at = firstRemoval, firstDoc - 1, 2 do keys[#keys + 1] = job .. ARGV[at] end
local gone = all(keys)
for i, s in ipairs(removed) do
  local id = ARGV[firstRemoval + 2 * (i - 1)]
  redis.call('DEL', job .. id, status .. id)
  take(s.key, member(s, id))
  if s.ended then take('purge', id) end
  take(s.tenant, id)
  count(s, -1)
end

for at = arg, firstUpdate - 1, 5 do
  local id, number, time, spec, said = unpack(ARGV, at, at + 4)
  local s = new[number]
  write(job .. id, spec)
  write(status .. id, said)
  put(s.key, time, member(s, id))
  if s.ended then put('purge', time, id) end
  put(s.tenant, '0', id)
  count(s, 1)
  tell('new', leanSpec(spec), leanStatus(said))
end

for i, old in ipairs(updated) do
  local at = firstUpdate + 6 * (i - 1)
  local id, _, number, time, spec, said = unpack(ARGV, at, at + 5)
  local s = new[number]
  write(status .. id, said)
  local from, to = member(old, id), member(s, id)
  if old.key ~= s.key or from ~= to then take(old.key, from) end
  put(s.key, time, to)
  if s.ended then put('purge', time, id) elseif old.ended then take('purge', id) end
  count(old, -1)
  count(s, 1)
  tell(old.state, spec, leanStatus(said))
  reply[i + 1] = old.state
end

for i, s in ipairs(removed) do
  tell(s.state, leanSpec(gone[i]), '')
  reply[#reply + 1], reply[#reply + 2] = s.state, gone[i]
end

for i = 1, docs do
  local at = firstDoc + 7 * (i - 1)
  local kind, key, _, verb, value, session, lease = unpack(ARGV, at, at + 6)
  if verb == 'remove' then
    if revs[i] > 0 then
      redis.call('HDEL', p .. 'doc:' .. kind, key)
      take('keys:' .. kind, key)
      if session ~= '' then take('leases', session) end
    end
  else
    redis.call('HSET', p .. 'doc:' .. kind, key, plain(revs[i] + 1) .. ' ' .. value)
    if revs[i] == 0 then put('keys:' .. kind, '0', key) end
    if session ~= '' then put('leases', plain(clock(ARGV[2]) + lease), session) end
  end
end

if ARGV[9] == '1' then tell('new', '', '') end

flush()
log(ARGV[1])
return reply
