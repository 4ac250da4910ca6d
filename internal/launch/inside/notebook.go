package inside

import (
	"fmt"
	"os"
	"path"
	"strings"
	"syscall"
)

// notebookPort is devenv.NotebookPort, which this package does not know; a test compares them.
const notebookPort = "8888"

// nodeJupyter is the one that the node's operator installed for all: editor.Tools, which this package does not know.
const nodeJupyter = "/opt/fermi/tools/jupyter/bin"

// notebook becomes Jupyter, where there is one. What its callers must know it finds in $JUPYTER_TOKEN: neither its arguments nor its log
// have it. It listens on the loopback alone.
func notebook() int {
	dir, err := os.Getwd()
	if err != nil {
		dir = "/"
	}
	search := os.Getenv("PATH")
	if home := os.Getenv("HOME"); home != "" {
		search = path.Join(home, ".local/bin") + ":" + search // of pip install --user
		_ = os.Setenv("PATH", search)
	}
	search += ":" + nodeJupyter // where the environment has none of its own
	for _, name := range []string{"jupyter-lab", "jupyter-notebook"} {
		file, err := Find(name, dir, search)
		if err != nil {
			continue
		}
		args := []string{name, "--no-browser", "--ip=127.0.0.1", "--port=" + notebookPort}
		for _, class := range []string{"ServerApp", "NotebookApp"} {
			if name == "jupyter-lab" && class == "NotebookApp" {
				continue
			}
			args = append(args, "--"+class+".port_retries=0", "--"+class+".allow_remote_access=True")
		}
		if os.Getuid() == 0 {
			args = append(args, "--allow-root")
		}
		err = syscall.Exec(file, args, os.Environ())
		fmt.Fprintf(os.Stderr, "fermi: %s can't be started: %v\n", file, err)
	}
	fmt.Fprintln(os.Stderr, strings.TrimSpace(noNotebook))
	return hold()
}

const noNotebook = `
fermi: there is no Jupyter here: neither jupyter-lab nor jupyter-notebook is in PATH. Install it in a shell of this environment
       (fermi env shell NAME -- pip install --user jupyterlab), or use an image that has it; then stop and start the environment.
       此处没有 Jupyter：PATH 中既无 jupyter-lab 也无 jupyter-notebook。请在该环境的终端中安装（pip install --user jupyterlab），
       或改用自带 Jupyter 的镜像，然后停止并重新启动环境。
`
