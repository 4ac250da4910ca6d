package agent

import (
	"os"
	"path/filepath"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// fits refuses what this machine can't do as a part of a cluster. Conflict: never; Unavailable: not now.
func (a *agent) fits(r *engine.Replica) error {
	if err := a.sealer.fits(r); err != nil {
		return err
	}
	if a.walls.err != nil {
		return nil // it is one owner's
	}
	others, err := a.living()
	if err != nil {
		return err
	}
	for _, o := range others {
		if o.Name != r.Name && o.Project != r.Project && (o.HostNetwork || r.HostNetwork) {
			return fault.New(fault.Unavailable, "OtherProject", fault.T(
				"Work over several machines uses the machine's network, and then only one project may be there; project %s still is.",
				"跨机器的任务使用本机网络，此时本机只能有一个项目；项目 %s 仍在本机运行。", o.Project))
		}
	}
	return nil
}

// living are the replicas of this machine that have not ended.
func (a *agent) living() (out []engine.Replica, err error) {
	root := filepath.Join(a.dir(), "replicas")
	entries, err := os.ReadDir(root)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		dir := filepath.Join(root, e.Name())
		var r engine.Replica
		if ok, err := record.Read(dir, record.FileReplica, &r); err != nil || !ok || record.Exists(dir, record.FileExit) {
			continue
		}
		out = append(out, r)
	}
	return out, nil
}
