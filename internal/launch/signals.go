package launch

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/activity"
	"github.com/fermi-cluster/fermi/internal/fault"
	look "github.com/fermi-cluster/fermi/internal/launch/activity"
	"github.com/fermi-cluster/fermi/internal/launch/tunnel"
	"github.com/fermi-cluster/fermi/internal/link"
)

// signalsFor is how long a look at all signals may take.
const signalsFor = 5 * time.Second

// watchSignals looks for signs of work. It knows devices and cores by what the warden tells it.
func (l *launcher) watchSignals(tunnels *tunnel.Set) *look.Watch {
	cfg := look.Config{Typed: l.shells.Used, Foreground: l.shells.Foreground, Moved: tunnels.Used, Clock: l.clock}
	if pagesOf(l.home.Replica.Command).notebook {
		cfg.Notebook = look.NewNotebook(tunnels.Dial, notebookPort, l.shells.Secret)
	}
	return look.New(cfg)
}

// asked answers what is asked of the whole environment of this name; it says whether that was so. A look may have to wait for a notebook: it is
// taken beside the ranks.
func (g guests) asked(p link.Probe, name string, client *link.Client) bool {
	kind, rest, _ := strings.Cut(p.Kind, ":")
	switch kind {
	case activity.Warn:
		if seconds, err := strconv.Atoi(rest); err == nil && seconds >= 0 {
			g.shells.Notice(idleNotice(name, time.Duration(seconds)*time.Second))
		}
		client.Probed(link.Probed{ID: p.ID, At: time.Now()})
		return true
	case activity.Ask:
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), signalsFor)
			defer cancel()
			t := g.signals.Table(ctx)
			text, err := json.Marshal(t)
			answer := link.Probed{ID: p.ID, Text: string(text), At: t.At}
			if err != nil {
				answer.Refused = fault.T("It could not be told: %v", "无法告知：%v", err)
			}
			client.Probed(answer)
		}()
		return true
	}
	return false
}

// idleNotice is what stands in terminals before an environment is stopped. Nobody knows the reader's language.
func idleNotice(name string, left time.Duration) string {
	minutes := max(int((left+30*time.Second)/time.Minute), 1)
	t := fault.T("fermi: nothing happens in environment %[1]s; it stops in %[2]d min. Press a key, or run: fermi env keep %[1]s",
		"fermi：环境 %[1]s 长时间无活动，将于 %[2]d 分钟后停止。按任意键或执行 fermi env keep %[1]s 可保留。", name, minutes)
	return t.EN + "\n" + t.ZH
}
