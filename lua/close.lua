-- Closes a limit that the upstream called spent, or takes that back. Of two closings the later holds.
--
-- ARGV after the common ones: the limit's name; 'until' and an instant; or 'probing' and '': for an hour, then one
-- charge may try; or 'reopen' and ''.
-- Reply: 'closed', epoch, sequence, now.
-- Cost: O(1).

local HOUR = 60 * 60 * 1000000

local old = open_archive()
local name, how, instant = word(), word(), number()
local limit = old.limit_named(name)

if objection then
  return objection
end
if not stored then
  old.empty()
end
if limit then
  local closed, probing = limit.place + CLOSED, limit.place + PROBING
  local till = how == 'probing' and now + HOUR or instant
  if how == 'reopen' then
    state[closed], state[probing] = 0, false
  elseif till > state[closed] then
    state[closed], state[probing] = till, how == 'probing'
  end
end
commit(true)
return { 'closed', state[EPOCH], state[SEQUENCE], now }
