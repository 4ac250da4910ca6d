package cluster

import (
	"context"
	"encoding/hex"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/download"
	"github.com/fermi-cluster/fermi/internal/cli/object"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// auditFlags are the filters of list and export.
type auditFlags struct {
	o            client.AuditOptions
	since, until string
	refused      bool
}

func (f *auditFlags) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.o.Actor, "actor", "", speech.Both("only what this user asked for", "只显示该用户的请求"))
	flags.StringVar(&f.o.Verb, "verb", "", speech.Both("only this verb, such as create, use, read-log, sign-in", "只显示该动作，如 create、use、read-log、sign-in"))
	flags.StringVar(&f.o.Kind, "kind", "", speech.Both("only about this kind, such as TrainingTask or Secret", "只显示该类型，如 TrainingTask、Secret"))
	flags.StringVar(&f.o.Name, "name", "", speech.Both("only about the object of this name", "只显示该名称的对象"))
	flags.StringVar(&f.o.IP, "from", "", speech.Both("only from this address", "只显示来自该地址的请求"))
	flags.StringVar(&f.o.Token, "token", "", speech.Both("only with the token or session of this id", "只显示使用该 ID 的令牌或会话的请求"))
	flags.StringVar(&f.o.Request, "request", "", speech.Both("only the request of this id", "只显示该 ID 的请求"))
	flags.StringVar(&f.o.Outcome, "outcome", "", speech.Both("only with this result: ok, or a reason such as NotAllowed", "只显示该结果：ok，或原因如 NotAllowed"))
	flags.BoolVar(&f.refused, "refused", false, speech.Both("only what was refused", "只显示被拒绝的请求"))
	flags.StringVar(&f.since, "since", "", speech.Both("only what is newer: 24h, or 2006-01-02T15:04:05Z", "只显示较新的：24h 或 2006-01-02T15:04:05Z"))
	flags.StringVar(&f.until, "until", "", speech.Both("only what is older, as --since", "只显示较旧的，格式同 --since"))
}

func (f *auditFlags) options(s *call.Session) (o client.AuditOptions, err error) {
	o = f.o
	o.Project = s.Project(api.KindTrainingTask)
	if info, err := object.KindOf(o.Kind); err == nil {
		o.Kind = string(info.Kind)
	}
	if f.refused {
		o.Outcome = "refused"
	}
	if o.Since, err = usage.Moment(f.since, s.Clock.Now()); err != nil {
		return o, usage.Wrong(s.Cmd, fault.From(err).Message)
	}
	if o.Until, err = usage.Moment(f.until, s.Clock.Now()); err != nil {
		return o, usage.Wrong(s.Cmd, fault.From(err).Message)
	}
	return o, nil
}

func AuditCommand(a *call.Shell) *cobra.Command {
	var f auditFlags
	var limit int
	cmd := &cobra.Command{
		Use: "audit", Short: speech.Both("Who did what, when and from where; for admins and owners of a project", "谁在何时何地做了什么；限管理员和项目负责人"),
		Args: usage.Need(0, 0, ""), Example: "  fermi audit --since 24h --refused\n  fermi audit --kind secret --verb use\n  fermi audit verify",
	}
	f.bind(cmd)
	cmd.Flags().IntVar(&limit, "limit", 100, speech.Both("at most so many, the newest", "最多显示的条数（最新的）"))
	cmd.RunE = a.Online(func(ctx context.Context, s *call.Session, _ []string) error {
		o, err := f.options(s)
		if err != nil {
			return err
		}
		if o.Limit = limit; limit < 1 || limit > 100_000 {
			return usage.Wrong(cmd, fault.T("--limit is 1 to 100000.", "--limit 应为 1 到 100000。"))
		}
		rows, err := s.Client.Audit(ctx, o)
		if err != nil {
			return err
		}
		return audit(s, rows)
	})
	cmd.AddCommand(auditExportCommand(a), auditVerifyCommand(a))
	return cmd
}

var auditColumns = []show.Column{
	{Head: fault.T("TIME", "时间"), Fixed: true}, {Head: fault.T("WHO", "用户")}, {Head: fault.T("WHAT", "动作"), Fixed: true}, {Head: fault.T("OBJECT", "对象")},
	{Head: fault.T("PROJECT", "项目")}, {Head: fault.T("FROM", "来源"), Fixed: true}, {Head: fault.T("RESULT", "结果"), Fixed: true}, {Head: fault.T("TIMES", "次数"), Fixed: true, Right: true},
}

var auditWide = append(auditColumns[:len(auditColumns):len(auditColumns)],
	show.Column{Head: fault.T("TOKEN OR SESSION", "令牌或会话")}, show.Column{Head: fault.T("REQUEST", "请求")}, show.Column{Head: fault.T("DETAIL", "详情")})

func audit(s *call.Session, entries []api.AuditEntry) error {
	if s.Structured() {
		return s.Data(map[string]any{"items": entries})
	}
	if len(entries) == 0 {
		s.Say("Nothing found.", "没有结果。")
		return nil
	}
	cols := auditColumns
	if s.Wide() {
		cols = auditWide
	}
	rows := make([][]show.Cell, len(entries))
	for i, e := range entries {
		what := string(e.Kind)
		if info, err := object.KindOf(what); err == nil {
			what = info.Singular
		}
		if e.Name != "" {
			what += "/" + e.Name
		}
		result := show.Cell{Text: e.Outcome, Tone: show.Good}
		if e.Outcome != "ok" {
			result.Tone = show.Bad
		}
		row := []show.Cell{
			show.Text(show.Stamp(e.Time)), show.Text(call.First(e.Actor, "-")), show.Text(e.Verb), show.Text(what), show.Text(call.First(e.Project, "-")), show.Text(call.First(e.RemoteIP, "-")), result,
			show.Text(strconv.FormatInt(max(e.Count, 1), 10)),
		}
		if s.Wide() {
			row = append(row, show.Text(call.First(e.Token, e.Session, "-")), show.Text(call.First(e.Request, "-")), show.Text(e.Detail))
		}
		rows[i] = row
	}
	return show.Write(s.Out, cols, rows, s.Lang, show.ScreenOf(s.Out))
}

func auditExportCommand(a *call.Shell) *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use: "export FILE", Short: speech.Both("Save the audit as JSON lines, oldest first", "将审计记录导出为 JSON Lines（从旧到新）"),
		Args: usage.Need(1, 1, "FILE"), Example: "  fermi audit export audit.jsonl\n  fermi audit export - --project nlp | jq .",
	}
	f.bind(cmd)
	cmd.RunE = a.Online(func(ctx context.Context, s *call.Session, args []string) error {
		o, err := f.options(s)
		if err != nil {
			return err
		}
		body, err := s.Client.ExportAudit(ctx, o)
		if err != nil {
			return err
		}
		defer body.Close()
		if args[0] == "-" {
			_, err := io.Copy(s.Out, body)
			return download.CutShort(err)
		}
		n, err := call.SaveFile(args[0], 0o600, func(f *os.File) (int64, error) {
			n, err := call.CopyProgress(ctx, s, f, body, -1, s.T("audit", "审计"))
			return n, download.CutShort(err)
		})
		if err != nil {
			return err
		}
		s.Say("Saved %s to %s. Check it any time with: fermi audit verify %s", "已保存 %s 到 %s。可随时校验：fermi audit verify %s", show.Size(n), args[0], args[0])
		return nil
	})
	return cmd
}

func auditVerifyCommand(a *call.Shell) *cobra.Command {
	var partial bool
	var keep string
	cmd := &cobra.Command{
		Use: "verify [FILE]", Short: speech.Both("Check that no record was changed, removed or moved: of the server, or of an export", "校验审计记录未被改动、删除或调换：服务器上的，或某个导出文件"),
		Args: usage.Need(0, 1, "[FILE]"), Example: "  fermi audit verify\n  fermi audit verify audit.jsonl --expect 1234:9f2c…",
	}
	cmd.Flags().BoolVar(&partial, "partial", false, speech.Both("check each record of an export that holds some only", "逐条校验只含部分记录的导出"))
	cmd.Flags().StringVar(&keep, "expect", "", speech.Both("NUMBER:HASH of a record, as an earlier verify said it; it must still be there", "先前校验输出的 编号:哈希，该记录必须仍在"))
	check := func(s *call.Session, r io.Reader) error {
		var kept api.AuditHead
		if keep != "" {
			number, hash, _ := strings.Cut(keep, ":")
			n, err := strconv.ParseInt(number, 10, 64)
			if raw, bad := hex.DecodeString(hash); err != nil || bad != nil || n < 1 || len(raw) != 32 {
				return usage.Wrong(cmd, fault.T("--expect is NUMBER:HASH, as verify prints it.", "--expect 应为 verify 输出的 编号:哈希。"))
			}
			kept = api.AuditHead{Number: n, Hash: hash}
		}
		report, err := client.VerifyAudit(r, partial, kept)
		if err != nil {
			return err
		}
		if s.Structured() {
			return s.Data(report)
		}
		switch {
		case partial:
			show.Line(s.Out, s.T("Records verified: %d; left out of this export: %d.", "已校验记录：%d 条；不在此导出中：%d 条。", report.Records, report.Missing))
		case report.Older > 0:
			show.Line(s.Out, s.T("Records verified: %d, and from before the chain: %d; none is missing.", "已校验记录：%d 条，建链前：%d 条；无缺失。", report.Records, report.Older))
		default:
			show.Line(s.Out, s.T("Records verified: %d; none is missing.", "已校验记录：%d 条；无缺失。", report.Records))
		}
		if h := report.Head; h.Number > 0 {
			show.Line(s.Out, s.T("Keep this somewhere else, and give it to a later verify with --expect: %d:%s", "请另行保存，供以后校验时用 --expect 给出：%d:%s", h.Number, h.Hash))
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			s, err := a.Session(cmd)
			if err != nil {
				return err
			}
			in := s.In
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return fault.New(fault.NotFound, "NoSuchFile", fault.T("Can't read %s.", "无法读取 %s。", args[0])).Because(err)
				}
				defer f.Close()
				in = f
			}
			return check(s, in)
		}
		return a.Online(func(ctx context.Context, s *call.Session, _ []string) error {
			body, err := s.Client.ExportAudit(ctx, client.AuditOptions{Project: s.Flags.Project})
			if err != nil {
				return err
			}
			defer body.Close()
			return check(s, body)
		})(cmd, args)
	}
	return cmd
}
