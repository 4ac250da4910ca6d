package kinds

import (
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/api/v1/image"
	control "github.com/fermi-cluster/fermi/internal/control/image"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server"
)

// ShipImages registers the catalogue of images, and the jobs that build, look at, bring and save them. It may be said again.
var ShipImages = sync.OnceFunc(func() {
	for _, row := range image.Rows {
		api.Register(row)
	}
	Register(imageJobs)
})

// imageJobs are the kind ImageJob.
var imageJobs = Work{
	Row: image.JobRow,
	Door: server.WorkRow{
		Fresh: func(o api.Work) error {
			s := &o.(*image.ImageJob).Spec
			s.Stop, s.Saved = false, nil
			return nil
		},
		Zone:  func(o api.Work) *string { return &o.(*image.ImageJob).Spec.Zone },
		Queue: func(o api.Work, queue string) { o.(*image.ImageJob).Spec.Queue = queue },
		Begin: func(o api.Work, reason string, why fault.Text) {
			o.(*image.ImageJob).Status = image.ImageJobStatus{Status: work.Status{Phase: api.PhasePending, Reason: reason, Message: why}}
		},
		Change: func(next, current, given api.Work) error {
			n, c := next.(*image.ImageJob), current.(*image.ImageJob)
			n.Spec = c.Spec
			n.Spec.Priority = given.(*image.ImageJob).Spec.Priority
			return nil
		},
		Verbs:   []server.WorkVerb{stopImageJob},
		Example: map[string]any{"metadata": map[string]any{"name": "look"}, "spec": map[string]any{"do": "inspect", "image": "python:3.12-slim"}},
	},
	New: func(cfg work.Config, policy devenv.Policy) work.Keeper { return control.New(cfg, policy.Images) },
}

var stopImageJob = server.WorkVerb{
	Word: "stop", Summary: "End an image job; what it has not pushed is not pushed.", Ends: true,
	Reason: "StopRequested", Event: fault.T("A stop was asked for.", "已请求停止。"),
	Do: func(o api.Work, _ time.Time) (fault.Text, bool) {
		j := o.(*image.ImageJob)
		if j.Spec.Stop || j.Status.Phase.Finished() {
			return fault.T("The job has ended or is ending already", "该任务已结束或正在结束"), false
		}
		j.Spec.Stop = true
		return fault.T("The job is ending", "任务正在停止"), true
	},
}
