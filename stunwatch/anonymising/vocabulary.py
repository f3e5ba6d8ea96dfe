"""The words that are kept: those of ESXi's own messages.

`needed()` are the words in the patterns of heads, detectors and inventory: without them, a line
would not be recognised. `readable()` are further words of the product's messages (vocabulary.txt).
They only help readers, so a word that is also a name in the bundle is replaced.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from stunwatch.detectors.catalogue import detectors
from stunwatch.ingest import heads, yaml_file

_FILE = Path(__file__).with_name("vocabulary.txt")

# The parts of a regular expression that are not literal text.
_SYNTAX = re.compile(
    r"\(\?P?<\w+>|\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}|\\[A-Za-z]|\{\d+(?:,\d*)?\}|\[\^[^\]]{0,99}\]"
)
_EITHER_CASE = re.compile(r"\[([A-Z])([a-z])\]")
_CLASS = re.compile(r"\[[^\]]{0,99}\]")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*")

_IN_CODE = """
Completed Completing restored restoring Failed unable increased reduced Done done Storage scsiPath
ATS Miscompare mInvalid Valid Invalid sense data Act EVAL FAILOVER NONE retry layer
Consolidate Helper ConsolidateEnd ConsolidateBegin SnapshotVMX SnapshotVMX_Consolidate quiesced
SnapshotVMX_ConsolidateCancel Requesting operation space left on device to lock the file Cannot
PERM LOSS command failed status RESERVATION CONFLICT vim cmd esxcli esxui h5 vpxuser vpxd extension
no user root dcui nobody unset HB host haTask VirtualMachine createSnapshot removeAllSnapshots
removeSnapshot consolidateDisks reconfigure vm Snapshot remove opID opId sid lro sub user
Originator Event Issue Error detected ha datacenter eventmgr event GeneralHostWarningEvent
GeneralHostErrorEvent EventEx info warning error Message Events timed out
vmkernel vmkwarning vmksummary vmware hostd vobd vpxa vpxd syslog messages fdm vmx vmxf
vmdk vmsd vmsn vmss vswp nvram vmtx hlog ctk flat delta sesparse rdm rdmp log gz zst xz bz2 all txt
csv json tgz tar tzst zip var run scratch vmfs volumes data logs tmp devices disks commands etc esx
esxtop
localcli esxcfg storage extent list core path device vaai status get nmp hpp system hostname uuid ip
interface ipv4 process scsidevs m inventory
localcli_storage localcli_system localcli_network localcli_vm esxcli_storage esxcli_system
esxcli_network esxcli_vm scsidevs_
naa eui t10 mpx vml uuid iqn nqn vmhba vmnic vmk cpu scsi sata nvme ide ethernet
dead deadver2 deadver3 psastor psastorCorrelator CmdSN
FS3 FS3Misc FS J3 J6 J Fil3 Fil6 Vol3 Res3 HBX VMFS3 VMFS5 VMFS6 vmfs3 vmfs5 vmfs6 Fil FSS DLX
NMP VMWARE WARNING ALERT qla2xxx qlnativefc lpfc fnic bnx2fc mptscsih cciss
scsi0 H D P C T L us ms s KB MB GB ns UTC ID Id
"""
"""Words that code and other files look for besides the patterns, and words in member names."""

_SHAPES = re.compile(
    r"(?:vmhba|vmnic|vmk|v?cpu|scsi|sata|nvme|ide|ethernet|numa|vthread|worker|[CTL])\d{1,4}"
    r"|[IWEA]\d{3}|\d{1,4}(?:SCSI|WARNING)|(?:SnapshotVMX|SVMotion|Consolidate)[A-Za-z_]{1,60}",
    re.ASCII,
)
"""Numbered parts of every host and VM, levels of a vmware.log, functions of ESXi, and words after a
number without a space, where two lines ran together: `Sync CR at 64SCSI: vm 1061`."""


@cache
def needed() -> frozenset[str]:
    """Return the words, in lower case, without which a line would be parsed differently."""
    texts = [_IN_CODE]
    for each in detectors():
        texts += [*each.literals, *(_text_of(regex.pattern) for regex in each.patterns.values())]
    parsers = yaml_file.read(heads.PARSERS)["parsers"]
    texts += [_text_of(parser["regex"]) for parser in parsers]
    return frozenset(word.lower() for text in texts for word in _WORD.findall(text))


@cache
def readable() -> frozenset[str]:
    """Return further words, in lower case, that help a reader."""
    return frozenset(_FILE.read_text(encoding="ascii").split()) - needed()


def is_part(word: str) -> bool:
    """Return True for a numbered part that every host or VM has: `vmhba2`, `C0`, `I125`."""
    return _SHAPES.fullmatch(word) is not None


def _text_of(regex: str) -> str:
    text = _EITHER_CASE.sub(r"\2", _SYNTAX.sub(" ", regex))
    return _CLASS.sub(" ", text)
