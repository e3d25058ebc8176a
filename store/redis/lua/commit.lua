-- A batch: first all that it expects is looked at, then all is written.
--
--   ARGV  by, floor, whether ids are checked, then how many inserts, updates, removals and documents, then those:
--     insert    id, rev, state, lane, priority, time, session, spec, payload, status, result
--     update    id, expected rev, rev, state, time, session, status, result
--     removal   id, expected rev
--     document  kind, key, expected rev ('any'), 'write' or 'remove', value, session ('' when it is none), lease
--
-- returns 'ok', the state before of each update, and state before, spec and payload of each removal;
-- or 'conflict', what, key and its revision.
local arg = 8
local inserts, updates, removals, docs = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local olds = {} -- by the place of the argument: rev, state, lane, priority, session, spec

local function known(at)
  local key = p .. 'job:' .. ARGV[at]
  local old = redis.call('HMGET', key, 'rev', 'state', 'lane', 'priority', 'session', 'spec')
  if old[1] ~= ARGV[at + 1] then return old[1] or '0' end
  olds[at] = old
end

local at = arg
for _ = 1, inserts do
  if ARGV[3] == '1' and redis.call('EXISTS', p .. 'job:' .. ARGV[at]) == 1 then return {'conflict', 'job', ARGV[at], 'any'} end
  at = at + 11
end
for _ = 1, updates do
  local rev = known(at)
  if rev then return {'conflict', 'job', ARGV[at], rev} end
  at = at + 8
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
local first = arg + 11 * inserts + 8 * updates
for at = first, first + 2 * removals - 1, 2 do
  local id, old = ARGV[at], olds[at]
  local key = p .. 'job:' .. id
  gone[#gone + 1], gone[#gone + 2], gone[#gone + 3] = old[2], old[6], redis.call('HGET', key, 'payload') or ''
  redis.call('DEL', key)
  take(place(old[2], old[3], old[4], old[5], id))
  if ended[old[2]] then take('purge', id) end
  take('jobs', id)
  take(tenant(old[3]), id)
  count(old[2], old[3], -1)
end

for at = arg, arg + 11 * inserts - 1, 11 do
  local id, rev, state, lane, priority, time, session, spec, payload, status, result = unpack(ARGV, at, at + 10)
  local fields = {'state', state, 'rev', rev, 'lane', lane, 'priority', priority, 'spec', spec, 'status', status}
  local n = #fields
  if session ~= '' then fields[n + 1], fields[n + 2], n = 'session', session, n + 2 end
  if payload ~= '' then fields[n + 1], fields[n + 2], n = 'payload', payload, n + 2 end
  if result ~= '' then fields[n + 1], fields[n + 2] = 'result', result end
  redis.call('HSET', p .. 'job:' .. id, unpack(fields))
  local key, member = place(state, lane, priority, session, id)
  put(key, time, member)
  if ended[state] then put('purge', time, id) end
  put('jobs', 0, id)
  put(tenant(lane), 0, id)
  count(state, lane, 1)
  tell('new', spec, status)
end

first = arg + 11 * inserts
for at = first, first + 8 * updates - 1, 8 do
  local id, _, rev, state, time, session, status, result = unpack(ARGV, at, at + 7)
  local old = olds[at]
  local lane, priority = old[3], old[4]
  local fields = {'state', state, 'rev', rev, 'status', status}
  local without = {'claim'}
  local n = #fields
  if session ~= '' then fields[n + 1], fields[n + 2], n = 'session', session, n + 2 else without[2] = 'session' end
  if result ~= '' then fields[n + 1], fields[n + 2] = 'result', result else without[#without + 1] = 'result' end
  redis.call('HSET', p .. 'job:' .. id, unpack(fields))
  redis.call('HDEL', p .. 'job:' .. id, unpack(without))
  local from, stood = place(old[2], lane, priority, old[5], id)
  local to, stands = place(state, lane, priority, session, id)
  if from ~= to or stood ~= stands then take(from, stood) end
  put(to, time, stands)
  if ended[state] then put('purge', time, id) elseif ended[old[2]] then take('purge', id) end
  if old[2] ~= state then
    count(old[2], lane, -1)
    count(state, lane, 1)
  end
  tell(old[2], old[6], status)
  reply[#reply + 1] = old[2]
end

for i = 1, #gone, 3 do
  tell(gone[i], gone[i + 1], '')
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = gone[i], gone[i + 1], gone[i + 2]
end

first = first + 8 * updates + 2 * removals
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
    if olds[at] == 0 then put('keys:' .. kind, 0, key) end
    if session ~= '' then put('leases', plain(clock(ARGV[2]) + lease), session) end
  end
end

flush()
log(ARGV[1])
return reply
