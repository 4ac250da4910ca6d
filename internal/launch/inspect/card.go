package inspect

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/preflight"
	"github.com/fermi-cluster/fermi/internal/recipe"
	sdk "github.com/fermi-cluster/fermi/sdk/python"
)

// ComputeOn computes something on one device on which nothing stands, with the machine's own Python; the zero value: there is
// no PyTorch, and nothing was computed.
func ComputeOn(ctx context.Context, d api.Device, log *slog.Logger) preflight.Devices {
	device := recipe.TorchDevice([]api.Device{d})
	python, err := exec.LookPath("python3")
	if err != nil || device == "" || d.Virtual {
		return preflight.Devices{}
	}
	read, write, err := os.Pipe()
	if err != nil {
		return preflight.Devices{}
	}
	var hearing sync.WaitGroup
	defer hearing.Wait()
	defer read.Close()
	cmd := exec.Command(python, "-c", sdk.SelfTest, device, "1")
	cmd.Dir, cmd.Stdout = "/", write
	cmd.Env = append(os.Environ(), "CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES="+d.UUID)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	write.Close()
	if err != nil {
		log.Info("nothing was computed on a device", "error", err)
		return preflight.Devices{}
	}
	defer func() { // one that hangs in a driver can't be waited for
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		go func() { _ = cmd.Wait() }()
	}()
	words, over := make(chan trialWord), make(chan struct{})
	defer close(over)
	hearing.Go(func() {
		defer close(words)
		hearTrial(read, words, over)
	})
	t := &trial{devices: []api.Device{d}, imports: 4 * trialImports, works: trialWorks, log: log}
	return t.judge(ctx, words)
}
