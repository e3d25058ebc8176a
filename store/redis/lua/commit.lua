-- A batch: first all that it expects is looked at, then all is written.
--
--   ARGV  by, floor, whether ids are checked, then how many spots, inserts, updates, removals and documents, then those:
--     spot      state, priority, session or '-', lane
--     insert    id, number of its spot, rev, time, spec, payload, status, result
--     update    id, expected rev, number of its spot, rev, time, status, result
--     removal   id, expected rev
--     document  kind, key, expected rev ('any'), 'write' or 'remove', value, session ('' when it is none), lease
--
-- returns 'ok', the state before of each update, and state before, spec and payload of each removal;
-- or 'conflict', what, key and its revision.
local there, inserts, updates, removals, docs =
  tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local at = 9
local new = {} -- spots by their number, as the arguments have it
for i = 1, there do
  new[tostring(i)] = spot(unpack(ARGV, at, at + 3))
  at = at + 4
end
local arg = at
local olds = {} -- by the place of the argument: spot and spec of a job, revision of a document

local function known(at)
  local old = redis.call('HMGET', p .. 'job:' .. ARGV[at], 'at', 'spec')
  if not old[1] then return '0' end
  local rev, s = standing(old[1])
  if rev ~= ARGV[at + 1] then return rev end
  old[1] = s
  olds[at] = old
end

for _ = 1, inserts do
  if ARGV[3] == '1' and redis.call('EXISTS', p .. 'job:' .. ARGV[at]) == 1 then return {'conflict', 'job', ARGV[at], 'any'} end
  at = at + 8
end
for _ = 1, updates do
  local rev = known(at)
  if rev then return {'conflict', 'job', ARGV[at], rev} end
  at = at + 7
end
for _ = 1, removals do
  local rev = known(at)
  if rev then return {'conflict', 'job', ARGV[at], rev} end
  at = at + 2
end
for _ = 1, docs do
  local doc = redis.call('HGET', p .. 'doc:' .. ARGV[at], ARGV[at + 1])
  local rev = doc and string.match(doc, '^%d+') or '0'
  if ARGV[at + 2] ~= 'any' and ARGV[at + 2] ~= rev then return {'conflict', ARGV[at], ARGV[at + 1], rev} end
  olds[at] = tonumber(rev)
  at = at + 7
end

-- Removals are written first: they need no memory, and so go on when Redis has none left.
local reply = {'ok'}
local gone = {}
local first = arg + 8 * inserts + 7 * updates
for at = first, first + 2 * removals - 1, 2 do
  local id, s, spec = ARGV[at], olds[at][1], olds[at][2]
  local key = p .. 'job:' .. id
  gone[#gone + 1], gone[#gone + 2], gone[#gone + 3] = s.state, spec, redis.call('HGET', key, 'payload') or ''
  redis.call('DEL', key)
  take(s.key, member(s, id))
  if s.ended then take('purge', id) end
  take(s.tenant, id)
  count(s, -1)
end

for at = arg, arg + 8 * inserts - 1, 8 do
  local id, number, rev, time, spec, payload, status, result = unpack(ARGV, at, at + 7)
  local s = new[number]
  local stands = stands(s, rev, result ~= '')
  local key = p .. 'job:' .. id
  if result ~= '' then
    redis.call('HSET', key, 'at', stands, 'spec', spec, 'payload', payload, 'status', status, 'result', result)
  elseif payload ~= '' then
    redis.call('HSET', key, 'at', stands, 'spec', spec, 'payload', payload, 'status', status)
  else
    redis.call('HSET', key, 'at', stands, 'spec', spec, 'status', status)
  end
  put(s.key, time, member(s, id))
  if s.ended then put('purge', time, id) end
  put(s.tenant, '0', id)
  count(s, 1)
  tell('new', spec, status)
end

first = arg + 8 * inserts
for at = first, first + 7 * updates - 1, 7 do
  local id, _, number, rev, time, status, result = unpack(ARGV, at, at + 6)
  local old, s = olds[at][1], new[number]
  local key = p .. 'job:' .. id
  if result ~= '' then
    redis.call('HSET', key, 'at', stands(s, rev, true), 'status', status, 'result', result)
  else
    redis.call('HSET', key, 'at', stands(s, rev, false), 'status', status)
    if old.result then redis.call('HDEL', key, 'result') end
  end
  local from, to = member(old, id), member(s, id)
  if old.key ~= s.key or from ~= to then take(old.key, from) end
  put(s.key, time, to)
  if s.ended then put('purge', time, id) elseif old.ended then take('purge', id) end
  count(old, -1)
  count(s, 1)
  tell(old.state, olds[at][2], status)
  reply[#reply + 1] = old.state
end

for i = 1, #gone, 3 do
  tell(gone[i], gone[i + 1], '')
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = gone[i], gone[i + 1], gone[i + 2]
end

first = first + 7 * updates + 2 * removals
for at = first, first + 7 * docs - 1, 7 do
  local kind, key, _, verb, value, session, lease = unpack(ARGV, at, at + 6)
  if verb == 'remove' then
    if olds[at] > 0 then
      redis.call('HDEL', p .. 'doc:' .. kind, key)
      take('keys:' .. kind, key)
      if session ~= '' then take('leases', session) end
    end
  else
    redis.call('HSET', p .. 'doc:' .. kind, key, plain(olds[at] + 1) .. ' ' .. value)
    if olds[at] == 0 then put('keys:' .. kind, '0', key) end
    if session ~= '' then put('leases', plain(clock(ARGV[2]) + lease), session) end
  end
end

flush()
log(ARGV[1])
return reply
