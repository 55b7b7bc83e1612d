-- What is used of a limit.

-- Adds up what is used of a limit: `sum`, what was charged from its head on, which moves; `used`, that or more. Only for limits
-- that are needed: one that was not charged for long has much that has expired.
local function add_up(ledger, limit)
  local state, place, from = ledger.state, limit.place, limit.from
  local sum, head = state[place + TOTAL], state[place + HEAD]
  if limit.other_rule and limit.other_rule ~= limit.rule then
    -- By that rule the head may have passed what counts by this one.
    sum, head = open_log(ledger).between(limit.code, from, nil), from
  elseif head < from then
    -- What the total still holds and the window does not; nothing of a limit that is new.
    local format = string.format
    local ids = limit.other_rule
        and redis.call('ZRANGEBYSCORE', KEYS[2], format('%d', head), format('(%d', from), 'LIMIT', '0', 'LONGEST_BLOCK')
      or {}
    if #ids == LONGEST_BLOCK then
      sum = sum - open_log(ledger).between(limit.code, head, from)
    elseif #ids > 0 then
      for _, vector in ipairs(redis.call('HMGET', KEYS[3], unpack(ids))) do
        sum = sum - units_in(vector, limit.code)
      end
    end
    head = from
  end
  state[place + TOTAL], state[place + HEAD] = sum, head
  limit.sum, limit.used = sum, sum
  if ledger.floors[limit.name] then
    limit.used = open_forecast(ledger).above_floors(limit, from, sum)
  end
end
