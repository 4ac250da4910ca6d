package v1

import (
	"cmp"

	"github.com/fermi-cluster/fermi/api/v1/quota"
)

// ProjectLimits bound what a project keeps. A field that is 0 or absent has its default.
type ProjectLimits struct {
	Logs        Bytes `json:"logs,omitempty" doc:"Bytes of its tasks' logs; 200Gi when absent."`
	Outputs     Bytes `json:"outputs,omitempty" doc:"Bytes of its tasks' outputs; 2Ti when absent."`
	Archives    Bytes `json:"archives,omitempty" doc:"Bytes of uploaded code; 200Gi when absent."`
	Checkpoints Bytes `json:"checkpoints,omitempty" doc:"Bytes of its checkpoints in the shared store; 20Ti when absent."`
	Assets      Bytes `json:"assets,omitempty" doc:"Bytes of its datasets and models; what versions share counts once; 20Ti when absent."`
	Images      Bytes `json:"images,omitempty" doc:"Bytes of the images that its tasks brought to a node, on each node; those that no task runs in are let go first; 1Ti when absent."`
	Objects     int   `json:"objects,omitempty" doc:"Tasks that wait, run, or have ended and are not archived yet; 100000 when absent."`
	Secrets     int   `json:"secrets,omitempty" doc:"Secrets; 1000 when absent."`
}

// ProjectUsage is what a project keeps, in the words of ProjectLimits.
type ProjectUsage = quota.ProjectUsage

// DefaultProjectLimits are for projects that say nothing.
var DefaultProjectLimits = ProjectLimits{
	Logs: 200 << 30, Outputs: 2 << 40, Archives: 200 << 30, Checkpoints: 20 << 40, Assets: 20 << 40, Images: 1 << 40, Objects: 100_000, Secrets: 1000,
}

const maxLimitObjects = 1_000_000

// StorageLimits are the project's with the defaults filled in.
func (p *Project) StorageLimits() ProjectLimits {
	l, d := ProjectLimits{}, DefaultProjectLimits
	if p.Spec.Limits != nil {
		l = *p.Spec.Limits
	}
	return ProjectLimits{
		Logs: cmp.Or(l.Logs, d.Logs), Outputs: cmp.Or(l.Outputs, d.Outputs), Archives: cmp.Or(l.Archives, d.Archives), Checkpoints: cmp.Or(l.Checkpoints, d.Checkpoints),
		Assets: cmp.Or(l.Assets, d.Assets), Images: cmp.Or(l.Images, d.Images), Objects: cmp.Or(l.Objects, d.Objects), Secrets: cmp.Or(l.Secrets, d.Secrets),
	}
}

func (f *faults) projectLimits(at string, l *ProjectLimits) {
	if l == nil {
		return
	}
	for _, x := range []struct {
		name string
		n    Bytes
	}{{"logs", l.Logs}, {"outputs", l.Outputs}, {"archives", l.Archives}, {"checkpoints", l.Checkpoints}, {"assets", l.Assets}, {"images", l.Images}} {
		if x.n < 0 {
			f.add(child(at, x.name), "%s is out of range: 0 or more is allowed; 0 is the default.", "%s 超出范围：不能为负；0 表示使用默认值。", x.n)
		}
	}
	f.count(at+".objects", l.Objects, 0, maxLimitObjects)
	f.count(at+".secrets", l.Secrets, 0, maxLimitObjects)
}
