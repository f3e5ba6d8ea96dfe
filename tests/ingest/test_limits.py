"""Each sender's lines are limited, and forged senders use limited memory (lua/limits.lua)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

LUA = Path(__file__).resolve().parents[2] / "ingest/lua"

CHECK = """
package.path = "%s/?.lua;" .. package.path
local limits = require("limits")

local function passing(sender, now, lines)
  local passed = 0
  for _ = 1, lines do
    if limits.passes(sender, now) then passed = passed + 1 end
  end
  return passed
end

local function kilobytes()
  collectgarbage()
  return collectgarbage("count")
end

function check()
  local found = { at_once = passing("a", 100, 80), a_second_later = passing("a", 101, 80) }
  found.clock_set_back = passing("a", 50, 80)
  found.another = passing("b", 101, 80)
  found.reported = limits.report(101)["a"]
  found.reported_again = limits.report(102) ~= nil
  for number = 1, 20000 do limits.passes("x" .. number, 200) end
  local before = kilobytes()
  found.others_at_once = 0
  for number = 1, 200000 do
    if limits.passes("y" .. number, 200) then found.others_at_once = found.others_at_once + 1 end
  end
  found.grown_kilobytes = math.floor(kilobytes() - before)
  found.others = limits.report(212).others
  found.later = passing("z", 300, 80)
  local members = {}
  for name, value in pairs(found) do
    members[#members + 1] = ('"%%s": %%s'):format(name, tostring(value))
  end
  print("{" .. table.concat(members, ",") .. "}")
  return 0, 0, 0
end
"""


@pytest.mark.skipif(shutil.which("fluent-bit") is None, reason="no fluent-bit on the PATH")
def test_each_sender_has_a_bucket_until_too_many_share_one(tmp_path: Path) -> None:
    script = tmp_path / "check.lua"
    script.write_text(CHECK % LUA)
    command = "fluent-bit -q -f 0.2 -i dummy -p samples=1"
    command += " -F lua -m * -p call=check -p script={} -o exit -m *"
    ran = subprocess.run(
        [word.format(script) for word in command.split()],
        env=os.environ | {"STUNWATCH_SENDER_RATE": "10", "STUNWATCH_SENDER_BURST": "50"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    [found] = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    assert found.pop("grown_kilobytes") < 2000  # 200,000 buckets would need 20,000
    assert found == {
        "at_once": 50,
        "a_second_later": 10,
        "clock_set_back": 0,
        "another": 50,
        "reported": 30 + 70 + 80,
        "reported_again": False,
        "others_at_once": 50,
        "others": 200000 - 50,
        "later": 50,
    }
