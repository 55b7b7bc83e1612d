-- Closes a limit that the upstream called spent, or takes that back. Of two closings the later holds.
--
-- ARGV after the common ones: the limit's name; 'until' and an instant; or 'probing' and '': for an hour, then one
-- charge may try; or 'reopen' and ''.
-- Reply: 'closed', epoch, sequence, now.
-- Cost: O(1).

local HOUR = 60 * 60 * 1000000

local name, how, instant = word(), word(), number()
local field = 'closed:' .. name

local refusal = objection()
if refusal then
  return refusal
end
if not state.epoch or state.server ~= server then
  begin_epoch()
end
local held = tonumber(string.match(call('HGET', META, field) or '', '^%d+'))
local closed = how == 'probing' and now + HOUR or instant
if how == 'reopen' then
  put(field, '')
elseif not held or closed > held then
  put(field, text(closed) .. (how == 'probing' and ' 1' or ' 0'))
  for _, limit in ipairs(limits) do
    limit.closed = limit.name == name and closed or limit.closed
  end
end
commit(true)
return { 'closed', state.epoch, text(state.sequence), text(now) }
