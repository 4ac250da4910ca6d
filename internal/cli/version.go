package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
)

func versionCommand(a *call.Shell) *cobra.Command {
	var onlyClient bool
	cmd := &cobra.Command{Use: "version", Short: speech.Both("Versions of this binary and the server", "查看客户端与服务器版本"), Args: usage.Need(0, 0, "")}
	cmd.Flags().BoolVar(&onlyClient, "client", false, speech.Both("don't ask the server", "不查询服务器"))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, err := a.Session(cmd)
		if err != nil {
			return err
		}
		info := map[string]string{"client": call.First(a.Build.Version, "dev"), "commit": a.Build.Commit, "date": a.Build.Date}
		if a.Build.NoCards {
			info["nvidia"] = "unsupported"
		}
		if !onlyClient {
			info["server"] = serverVersion(cmd.Context(), s)
		}
		if s.Structured() {
			return s.Data(info)
		}
		line := "fermi " + info["client"]
		if a.Build.Commit != "" {
			line += " (" + a.Build.Commit + ")"
		}
		show.Line(s.Out, line)
		if a.Build.NoCards {
			show.Line(s.Out, s.T("built without cgo: it sees no NVIDIA cards on a machine", "未启用 cgo 构建：无法识别机器上的 NVIDIA 加速卡"))
		}
		if v := info["server"]; v != "" {
			show.Line(s.Out, s.T("server %s", "服务器 %s", show.Clean(v)))
		}
		return nil
	}
	return cmd
}

// serverVersion is "" when the server isn't there: the version of the binary is answer enough.
func serverVersion(ctx context.Context, s *call.Session) string {
	c, err := s.Dial()
	if err != nil {
		return ""
	}
	defer c.CloseIdle()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	v, err := c.Version(ctx)
	if err != nil {
		return ""
	}
	return v.Version
}
