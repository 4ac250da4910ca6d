package cli_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/cli/asset"
	"github.com/fermi-cluster/fermi/internal/cli/env"
	"github.com/fermi-cluster/fermi/internal/cli/service"
)

// TestKindsSpeakTheSame: commands of environments and services say what is wrong with a command line as all others do.
func TestKindsSpeakTheSame(t *testing.T) {
	t.Setenv("FERMI_SERVER", "http://127.0.0.1:1")
	t.Setenv("FERMI_TOKEN", "fermi_x_y")
	for line, want := range map[string]string{
		"env shell": "Missing: NAME [-- COMMAND…].", "env stop": "Missing: NAME.", "env stop a b": "It takes NAME.", "service scale x": "It takes NAME REPLICAS.", "chat": "Missing: NAME",
		"train shell": "Missing: TASK",
		"env create x --memory 12Q --cpu lots --env A":         "3 mistakes",
		"service create x --memory 12Q --cpu lots -- true":     "--cpu",
		"env create x --memory 12Q":                            "--memory: \"12Q\" is no amount",
		"--lang zh env shell":                                  "缺少参数：NAME",
		"--lang zh service create x --memory 12Q --env A -- a": "命令行参数有 2 处错误",
		"exec x":                  "fermi env shell x, fermi train shell x",
		"service deploy x":        "fermi service create x",
		"data push x ./x":         "fermi data upload x ./x?",
		"model pull x":            "fermi model download NAME DIR?",
		"env create x --disk 5Gi": "--storage?",
	} {
		root := cli.Root(cli.BuildInfo{})
		asset.Add(root)
		env.Add(root)
		service.Add(root)
		var out, errs bytes.Buffer
		root.SetOut(&out)
		root.SetErr(&errs)
		root.SetArgs(append([]string{"--lang", "en"}, strings.Fields(line)...))
		if code := cli.Execute(t.Context(), root); code != 2 || !strings.Contains(errs.String(), want) || strings.Contains(errs.String(), "on our side") || strings.Count(errs.String(), want) != 1 {
			t.Errorf("%s: code %d, %s", line, code, errs.String())
		}
	}
}
