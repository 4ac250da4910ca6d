// Package restored names where the state came from that a task went on from after a failure, and says of how many failures it is not
// known what they cost.
//
// Place: beside api/v1, whose Recovery has it as source. Promise: controllers, command line and tests say it by the same names. Enemies: a
// source that nobody could have seen.
package restored

import (
	"fmt"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// The sources.
const (
	Memory    = "memory"    // the ranks' own
	Instant   = "instant"   // memory that checkpoint.instant saved to
	Peer      = "peer"      // another node's memory, of at least one rank
	Local     = "local"     // the disks of the nodes
	Shared    = "shared"    // the store, for at least one rank
	Folder    = "folder"    // the newest whole entry of checkpoint.folder
	Script    = "script"    // the platform gave none; the script went on by itself
	Beginning = "beginning" // there was none
)

var names = map[string]fault.Text{
	Memory: fault.T("memory", "内存"), Instant: fault.T("an instant save in memory", "内存中的即时保存"), Peer: fault.T("another node's memory", "其他节点的内存"),
	Local: fault.T("the node's disk", "节点本地盘"), Shared: fault.T("the shared store", "共享存储"), Folder: fault.T("the script's own folder", "脚本自己的检查点目录"),
	Script: fault.T("what the script itself had kept", "脚本自行保存的状态"),
}

// From says where a recovery went on, and from what; empty: not known yet.
func From(r *api.Recovery) fault.Text {
	if r.Source == Beginning {
		return fault.T("from the beginning", "从头开始")
	}
	name, ok := names[r.Source]
	switch {
	case !ok:
		return fault.Text{}
	case r.Restore == 0: // an entry without a number, of a script that tells no steps
		return fault.Text{EN: "from " + name.EN, ZH: "从" + name.ZH + "继续"}
	}
	return fault.Text{EN: fmt.Sprintf("from step %d of %s", r.Restore, name.EN), ZH: fmt.Sprintf("从%s的第 %d 步继续", name.ZH, r.Restore)}
}
