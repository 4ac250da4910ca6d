package kubetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Processes is the life of a pod whose containers are processes of this machine, run by program in a folder of the pod's own below dir: paths
// of its mounts become folders there. Config maps and the pod's own token are the cluster's.
func Processes(program, dir string) func(*Life) {
	return func(l *Life) {
		p := &processes{Life: l, program: program, dir: filepath.Join(dir, l.Pod.Name)}
		p.live()
	}
}

type processes struct {
	*Life
	program, dir string
	started      metav1.Time
	volumes      []volume
}

func (p *processes) live() {
	first, main := p.Pod.Spec.InitContainers[0], p.Pod.Spec.Containers[0]
	err := errors.Join(p.mount(), p.fromNode(first))
	defer p.unmount()
	if err != nil {
		p.fail(fmt.Sprintf("mount: %v", err), 128)
		return
	}
	if out, code := p.wait(p.command(p.program, first.Args)); code != 0 {
		init := []corev1.ContainerStatus{{Name: first.Name, Image: first.Image, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: int32(code), Message: out, FinishedAt: metav1.Now()}}}}
		p.Report(corev1.PodStatus{Phase: corev1.PodFailed, InitContainerStatuses: init})
		return
	}
	if err := p.fromNode(main); err != nil {
		p.fail(fmt.Sprintf("mount: %v", err), 128)
		return
	}
	p.started = metav1.Now()
	p.running(false)
	ended := make(chan struct{})
	probed := make(chan struct{})
	go func() {
		defer close(probed)
		p.probe(ended)
	}()
	_, code := p.wait(p.command(p.within(main.Command[0]), main.Command[1:]))
	close(ended)
	<-probed
	words, _ := os.ReadFile(p.within(corev1.TerminationMessagePathDefault))
	p.fail(string(words), code)
}

func (p *processes) running(started bool) {
	main := p.Pod.Spec.Containers[0]
	p.Report(corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "127.0.0.1", ContainerStatuses: []corev1.ContainerStatus{{
		Name: main.Name, Image: main.Image, Started: &started, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: p.started}},
	}}})
}

// probe asks the startup probe until it has passed.
func (p *processes) probe(ended <-chan struct{}) {
	ask := p.Pod.Spec.Containers[0].StartupProbe.Exec.Command
	for p.command(p.within(ask[0]), ask[1:]).Run() != nil {
		select {
		case <-ended:
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
	p.running(true)
}

// fail reports the end; with code 0 it is none.
func (p *processes) fail(words string, code int) {
	phase, reason := corev1.PodSucceeded, "Completed"
	if code != 0 {
		phase, reason = corev1.PodFailed, "Error"
	}
	main := p.Pod.Spec.Containers[0]
	p.Report(corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{
		Name: main.Name, Image: main.Image,
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: int32(code), Reason: reason, Message: words, StartedAt: p.started, FinishedAt: metav1.Now()}},
	}}})
}

// within is a path of the container on this machine.
func (p *processes) within(path string) string { return filepath.Join(p.dir, path) }

func (p *processes) command(program string, args []string) *exec.Cmd {
	own := make([]string, len(args))
	for i, a := range args {
		if own[i] = a; strings.HasPrefix(a, "/") {
			own[i] = p.within(a)
		}
	}
	cmd := exec.Command(program, own...)
	cmd.Env = append(os.Environ(), "FERMI_POD_IP=127.0.0.1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// mount makes what the pod's volumes are.
func (p *processes) mount() error {
	var errs []error
	for _, dir := range []string{"/fermi", "/fermi-key", "/fermi-link", "/fermi-account", "/dev"} {
		errs = append(errs, os.MkdirAll(p.within(dir), 0o700))
	}
	for _, v := range p.Pod.Spec.Volumes {
		switch {
		case v.ConfigMap != nil:
			var m corev1.ConfigMap
			errs = append(errs, p.ask("GET", "configmaps/"+v.ConfigMap.Name, nil, &m))
			for name, text := range m.Data {
				errs = append(errs, os.WriteFile(filepath.Join(p.within("/"+v.Name), name), []byte(text), 0o600))
			}
		case v.PersistentVolumeClaim != nil:
			errs = append(errs, p.ask("GET", "persistentvolumeclaims/"+v.PersistentVolumeClaim.ClaimName, nil, &corev1.PersistentVolumeClaim{}), p.attach(v.Name, v.PersistentVolumeClaim.ClaimName))
		case v.Projected != nil:
			want := v.Projected.Sources[0].ServiceAccountToken
			var got struct {
				Status struct{ Token string } `json:"status"`
			}
			errs = append(errs, p.ask("POST", "serviceaccounts/"+p.Pod.Spec.ServiceAccountName+"/token", Object{
				"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": Object{
					"audiences": []string{want.Audience}, "expirationSeconds": want.ExpirationSeconds,
					"boundObjectRef": Object{"kind": "Pod", "apiVersion": "v1", "name": p.Pod.Name, "uid": p.Pod.UID},
				},
			}, &got))
			errs = append(errs, os.WriteFile(filepath.Join(p.within("/"+v.Name), want.Path), []byte(got.Status.Token), 0o600))
		}
	}
	return errors.Join(errs...)
}

// fromNode shows a container what it mounts of the node, in the place of what the one before it did. As a kubelet does, it makes folders that are not there.
func (p *processes) fromNode(c corev1.Container) error {
	var errs []error
	for _, v := range p.Pod.Spec.Volumes {
		if v.HostPath == nil {
			continue
		}
		for _, m := range p.Pod.Spec.InitContainers[0].VolumeMounts {
			if m.Name == v.Name && c.Name != p.Pod.Spec.InitContainers[0].Name {
				errs = append(errs, os.Remove(p.within(m.MountPath)))
			}
		}
		for _, m := range c.VolumeMounts {
			if m.Name != v.Name {
				continue
			}
			from, at := filepath.Join(v.HostPath.Path, m.SubPath), p.within(m.MountPath)
			if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, os.MkdirAll(from, 0o750))
			}
			errs = append(errs, os.MkdirAll(filepath.Dir(at), 0o700), os.Symlink(from, at))
		}
	}
	return errors.Join(errs...)
}

// volume is a folder that outlives pods while one of them has it.
type volume struct{ at, lies string }

// attach brings a volume into the pod. One that another pod has is not where it lies: it is never open twice.
func (p *processes) attach(name, claim string) error {
	mounts := p.Pod.Spec.Containers[0].VolumeMounts
	i := slices.IndexFunc(mounts, func(m corev1.VolumeMount) bool { return m.Name == name })
	if i < 0 {
		return fmt.Errorf("no container mounts %s", name)
	}
	v := volume{at: p.within(mounts[i].MountPath), lies: filepath.Join(filepath.Dir(p.dir), "claims", claim)}
	made := v.lies + ".made"
	if _, err := os.Stat(made); errors.Is(err, fs.ErrNotExist) {
		if err := errors.Join(os.MkdirAll(v.lies, 0o700), os.WriteFile(made, nil, 0o600)); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(v.at), 0o700); err != nil {
		return err
	}
	if err := os.Rename(v.lies, v.at); err != nil {
		return fmt.Errorf("volume %s is in use: %w", claim, err)
	}
	p.volumes = append(p.volumes, v)
	return nil
}

func (p *processes) unmount() {
	for _, v := range p.volumes {
		_ = os.Rename(v.at, v.lies)
	}
}

func (p *processes) ask(method, path string, body, into any) error {
	code, out, err := p.k.s.Do(Admin, method, "/api/v1/namespaces/"+p.Pod.Namespace+"/"+path, "", body)
	if err == nil && code >= http.StatusMultipleChoices {
		err = fmt.Errorf("%s: %d %s", path, code, out)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(out, into)
}

// wait runs a process to its end; when the pod is deleted it gets SIGTERM, and SIGKILL after the grace.
func (p *processes) wait(cmd *exec.Cmd) (out string, code int) {
	var text strings.Builder
	cmd.Stdout, cmd.Stderr = &text, &text
	if err := cmd.Start(); err != nil {
		return err.Error(), 128
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	deleted, over := p.Deleted, p.Over
	var late <-chan time.Time
	for {
		select {
		case err := <-ended:
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				if s, ok := exit.Sys().(syscall.WaitStatus); ok && s.Signaled() {
					return text.String(), 128 + int(s.Signal())
				}
				return text.String(), exit.ExitCode()
			}
			return text.String(), 0
		case <-deleted:
			deleted = nil
			_ = cmd.Process.Signal(syscall.SIGTERM)
			late = time.After(p.Grace)
		case <-late:
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		case <-over:
			over = nil
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
	}
}
