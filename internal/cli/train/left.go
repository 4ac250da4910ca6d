package train

import (
	"context"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// quiet is how long the versions that a task owes are waited for before that is said.
const quiet = 2 * time.Second

// left waits for the versions that a completed task was to leave, and says them, or why there are none. Ctrl-C ends the wait: they are made all the same.
func (f *follower) left(ctx context.Context, task *api.TrainingTask) error {
	if task.Spec.Outputs == nil {
		return nil
	}
	for began := f.s.Clock.Now(); task.Owes(); {
		if f.s.Clock.Now().Sub(began) >= quiet {
			f.say(f.s.T("Registering its outputs…", "正在登记产出……"))
		}
		select {
		case <-f.signals:
			f.say("")
			f.s.Say("Its outputs are still being registered; later: fermi get task %s -o yaml", "产出仍在登记，稍后查看：fermi get task %s -o yaml", task.Meta.Name)
			return call.Exit{Code: 130}
		case <-f.s.Clock.After(200 * time.Millisecond):
		}
		next, err := client.Get[*api.TrainingTask](ctx, f.s.Client, task.Meta.Project, call.First(task.Meta.ID, task.Meta.Name))
		switch {
		case err == nil:
			task = next
		case !fault.CodeOf(err).Retry():
			return err
		}
	}
	f.say("")
	f.made("model", fault.T("model", "模型"), task.Status.Model)
	f.made("data", fault.T("dataset", "数据集"), task.Status.Dataset)
	return nil
}

// made says one of them; verb is the command of its kind.
func (f *follower) made(verb string, kind fault.Text, m *mount.Made) {
	switch {
	case m == nil:
	case m.Version > 0:
		f.s.Say("It left version %[2]d of the %[3]s %[1]s: fermi %[4]s show %[1]s", "产出已登记为%[3]s %[1]s 的版本 %[2]d：fermi %[4]s show %[1]s", m.Name, m.Version, kind, verb)
	default:
		f.s.Say("It left no version of the %[2]s %[1]s: %[3]s", "未能登记%[2]s %[1]s 的版本：%[3]s", m.Name, kind, show.Clean(call.First(m.Message.In(f.s.Lang), m.Reason)))
	}
}
