package object

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/pack"
	"github.com/fermi-cluster/fermi/internal/cli/ship"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func ApplyCommand(a *call.Shell) *cobra.Command {
	var files []string
	var dryRun bool
	var code string
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: speech.Both("Create or update objects from manifests", "按清单创建或更新对象"),
		Example: speech.Both("  fermi apply -f task.yaml\n  fermi apply -f task.yaml --code .\n  cat zones.yaml | fermi apply -f - --dry-run",
			"  fermi apply -f task.yaml\n  fermi apply -f task.yaml --code .\n  cat zones.yaml | fermi apply -f - --dry-run"),
		Args: usage.Need(0, 0, ""),
	}
	cmd.Flags().StringArrayVarP(&files, "filename", "f", nil, speech.Both("manifest (YAML or JSON, several documents); - is stdin; may be repeated", "清单文件（YAML 或 JSON，可含多个文档）；- 表示标准输入；可重复"))
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, speech.Both("only check, change nothing", "仅检查，不做更改"))
	cmd.Flags().StringVar(&code, "code", "", speech.Both("folder to send along as the code of tasks that name none", "作为代码发送的文件夹，用于清单中未指明代码的任务"))
	cmd.RunE = a.Online(func(ctx context.Context, s *call.Session, _ []string) error {
		if len(files) == 0 {
			return usage.Wrong(cmd, fault.T("Say which manifest with -f FILE.", "请用 -f FILE 指定清单。"))
		}
		objs, err := ReadManifests(s.In, files)
		if err != nil {
			return err
		}
		if code != "" {
			if err := giveCode(ctx, s, objs, code, dryRun); err != nil {
				return err
			}
		}
		return applyAll(ctx, s, objs, dryRun)
	})
	return cmd
}

// HasCode says that a task names where its code comes from.
func HasCode(t *api.TrainingTask) bool {
	c := t.Spec.Code
	return c != nil && (c.Archive != "" || c.Folder != "" || c.Git != nil)
}

// giveCode makes a folder the code of the tasks that name none. A check packs it and uploads nothing.
func giveCode(ctx context.Context, s *call.Session, objs []api.Object, dir string, dryRun bool) error {
	var without []*api.TrainingTask
	for _, o := range objs {
		if t, ok := o.(*api.TrainingTask); ok && !HasCode(t) {
			without = append(without, t)
		}
	}
	if len(without) == 0 {
		return usage.Wrong(s.Cmd, fault.T("--code: every task of the manifest names its code.", "--code：清单中的任务都已指明代码。"))
	}
	if dryRun {
		_, err := pack.Folder(ctx, dir, io.Discard, func(int64) {})
		return err
	}
	made, err := ship.Ship(ctx, s, dir)
	if err != nil {
		return err
	}
	for _, t := range without {
		if t.Spec.Code == nil {
			t.Spec.Code = &api.Code{}
		}
		t.Spec.Code.Archive = made.Digest
	}
	return nil
}

// Outcome is what apply did to one object.
type Outcome struct {
	Kind    api.Kind `json:"kind"`
	Project string   `json:"project,omitempty"`
	Name    string   `json:"name"`
	Result  string   `json:"result"` // created, updated, unchanged, failed
	DryRun  bool     `json:"dryRun,omitempty"`
	Error   string   `json:"error,omitempty"`
}

var outcomeWords = map[string]fault.Text{
	"created": fault.T("created", "已创建"), "updated": fault.T("updated", "已更新"),
	"unchanged": fault.T("unchanged", "无变化"), "failed": fault.T("failed", "失败"),
}

// applyAll goes on after a failure, tells of each object, and ends with the first error.
func applyAll(ctx context.Context, s *call.Session, objs []api.Object, dryRun bool) error {
	var firstErr error
	var outcomes []Outcome
	for _, obj := range objs {
		if ctx.Err() != nil {
			return fault.From(ctx.Err())
		}
		made, result, err := applyOne(ctx, s, obj, dryRun)
		m := made.GetMeta()
		o := Outcome{Kind: obj.Kind(), Project: m.Project, Name: call.First(m.Name, m.DisplayName), Result: result, DryRun: dryRun}
		if err != nil {
			o.Result, o.Error = "failed", fault.From(err).Message.In(s.Lang)
			if firstErr == nil {
				firstErr = err
			} else if len(objs) > 1 {
				call.Report(s.Err, err, s.Lang)
			}
		}
		outcomes = append(outcomes, o)
		if !s.Structured() {
			Tell(s, o)
		}
	}
	if s.Structured() {
		if err := s.Data(map[string]any{"items": outcomes}); err != nil {
			return err
		}
	}
	return firstErr
}

func Tell(s *call.Session, o Outcome) {
	word := api.MustInfo(o.Kind).Singular + "/" + show.Clean(o.Name)
	if s.Flags.Output == "name" {
		if o.Error == "" {
			show.Line(s.Out, word)
		}
		return
	}
	line := word + " " + outcomeWords[o.Result].In(s.Lang)
	if o.DryRun {
		line += s.T(" (dry run)", "（仅检查）")
	}
	show.Line(s.Out, line)
}

// applyOne creates what isn't there and updates what differs. The object it returns is never nil.
func applyOne(ctx context.Context, s *call.Session, obj api.Object, dryRun bool) (api.Object, string, error) {
	meta, info := obj.GetMeta(), api.MustInfo(obj.Kind())
	if info.Project && meta.Project == "" {
		meta.Project = s.Project(obj.Kind())
	}
	if !info.Users {
		return obj, "", fault.New(fault.Invalid, "ReadOnlyKind", fault.T(
			"Objects of kind %s are made by the system, not by manifests.", "%s 由系统维护，不能通过清单创建。", info.Kind))
	}
	if meta.Name != "" {
		for try := 0; ; try++ {
			live, err := s.Client.Get(ctx, obj.Kind(), meta.Project, meta.Name)
			if fault.Is(err, fault.NotFound) {
				break
			}
			if err != nil {
				return obj, "", err
			}
			made, result, err := update(ctx, s, live, obj, dryRun)
			if fault.ReasonOf(err) == "Stale" && meta.Revision == 0 && try < 3 {
				continue // somebody was faster; the manifest names no revision, so look again
			}
			return made, result, err
		}
	}
	if token, ok := obj.(*api.Token); ok && !dryRun {
		return createToken(ctx, s, token)
	}
	made, err := s.Client.Create(ctx, obj, dryRun)
	if err != nil {
		return obj, "", err
	}
	return made, "created", nil
}

func update(ctx context.Context, s *call.Session, live, wish api.Object, dryRun bool) (api.Object, string, error) {
	next, err := merge(live, wish)
	if err != nil {
		return wish, "", err
	}
	if next.GetMeta().Revision == live.GetMeta().Revision && same(live, next) {
		return live, "unchanged", nil
	}
	made, err := s.Client.Update(ctx, next, dryRun)
	if err != nil {
		return wish, "", err
	}
	if made.GetMeta().Revision == live.GetMeta().Revision && !dryRun {
		return made, "unchanged", nil
	}
	return made, "updated", nil
}

// merge is the wish as an update of the live object: what the server fills in by itself is kept
// where the manifest is silent.
func merge(live, wish api.Object) (api.Object, error) {
	next, err := clone(wish)
	if err != nil {
		return nil, err
	}
	lm, nm := live.GetMeta(), next.GetMeta()
	if nm.Revision == 0 {
		nm.Revision = lm.Revision
	}
	if nm.DisplayName == "" {
		nm.DisplayName = lm.DisplayName
	}
	nm.ID, nm.Owner, nm.CreatedAt, nm.UpdatedAt, nm.DeletedAt = lm.ID, lm.Owner, lm.CreatedAt, lm.UpdatedAt, lm.DeletedAt
	switch n := next.(type) {
	case *api.TrainingTask:
		l := live.(*api.TrainingTask)
		n.Spec.Queue = call.First(n.Spec.Queue, l.Spec.Queue)
		n.Spec.Stop = n.Spec.Stop || l.Spec.Stop
		if n.Spec.Restore == nil {
			n.Spec.Restore = l.Spec.Restore
		}
		n.Status = l.Status
	case *api.Zone:
		n.Status = live.(*api.Zone).Status
	case *api.Queue:
		n.Status = live.(*api.Queue).Status
	case *api.Token:
		n.Spec.User = call.First(n.Spec.User, live.(*api.Token).Spec.User)
	}
	if d, ok := next.(api.Defaulter); ok {
		d.Default()
	}
	return next, nil
}

func clone(o api.Object) (api.Object, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	out := api.MustInfo(o.Kind()).New()
	return out, json.Unmarshal(data, out)
}

// same compares what people may write, as JSON, so that nil and empty are alike.
func same(a, b api.Object) bool {
	flat := func(o api.Object) any {
		var v struct {
			Metadata struct {
				DisplayName string
				Labels      map[string]string
			}
			Spec any
		}
		data, err := json.Marshal(o)
		if err != nil || json.Unmarshal(data, &v) != nil {
			return fmt.Sprintf("%p", o)
		}
		if len(v.Metadata.Labels) == 0 {
			v.Metadata.Labels = nil
		}
		return v
	}
	return reflect.DeepEqual(flat(a), flat(b))
}

// createToken is for apply: the secret goes to stderr, because stdout tells what happened.
func createToken(ctx context.Context, s *call.Session, token *api.Token) (api.Object, string, error) {
	made, err := s.Client.CreateToken(ctx, token, false)
	if err != nil {
		return token, "", err
	}
	if made.Object == nil {
		made.Object = token
	}
	s.Say("The secret of token %s, shown only now: %s", "令牌 %s 的密钥（仅此一次显示）：%s", made.Object.Meta.Name, made.Secret)
	return made.Object, "created", nil
}
