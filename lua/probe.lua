-- Whether this Redis is fit for a ledger: what may happen to its keys, and whether this user may run every command that
-- the scripts need. Works on keys of its own and leaves none behind.
--
-- KEYS: those of an account of its own, as for every script; used are 1, a hash, and 2, a sorted set.
-- ARGV: none.
-- Reply: 'probed', maxmemory-policy, '1' where an append-only file is kept, now in microseconds; then each command that
-- failed, and why.
-- Cost: O(1).

local hash, set = KEYS[1], KEYS[2]

local commands = {
  { 'HSET', hash, 'field', '1' },
  { 'HGET', hash, 'field' },
  { 'HMGET', hash, 'field' },
  { 'PEXPIRE', hash, '60000' },
  { 'HDEL', hash, 'field' },
  { 'ZADD', set, '1', 'one' },
  { 'ZADD', set, '2', 'two' },
  { 'ZSCORE', set, 'one' },
  { 'ZCOUNT', set, '-inf', '+inf' },
  { 'ZRANGE', set, '0', '0' },
  { 'ZRANGEBYSCORE', set, '-inf', '+inf' },
  { 'ZREVRANGEBYSCORE', set, '+inf', '-inf' },
  { 'ZREM', set, 'one' },
  { 'ZREMRANGEBYRANK', set, '0', '-1' },
}

local function said(section, field)
  local info = redis.pcall('INFO', section)
  return type(info) == 'string' and string.match(info, field .. ':([^\r\n]*)') or ''
end

local time = redis.call('TIME')
local reply = {
  'probed',
  said('memory', 'maxmemory_policy'),
  said('persistence', 'aof_enabled'),
  string.format('%.0f', tonumber(time[1]) * 1000000 + tonumber(time[2])),
}
if said('replication', 'master_replid') == '' then
  reply[#reply + 1] = 'INFO'
  reply[#reply + 1] = 'it tells no replication id'
end
for _, command in ipairs(commands) do
  local result = redis.pcall(unpack(command))
  if type(result) == 'table' and result.err then
    reply[#reply + 1] = command[1]
    reply[#reply + 1] = result.err
  end
end
return reply
