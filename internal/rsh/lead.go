package rsh

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
)

// agent is the name that mpirun and its like find on the PATH: they hand it on to daemons in other
// replicas, where the folder is another.
const agent = "fermi-rsh"

// Where processes find us: here, in a replica that serves, else at the lead. That one's variables may reach
// all of them.
const (
	hereExe = "FERMI_RSH_HERE"
	leadExe = "FERMI_RSH_LEAD"
)

func ourselves() string { return fmt.Sprintf("/proc/%d/exe", os.Getpid()) }

// agents puts programs into a folder that are called instead of ssh. Our own file may lie where the
// user can't go, but the running process is always there.
func agents() (dir string, err error) {
	dir, err = os.MkdirTemp("", agent+"-")
	if err != nil {
		return "", err
	}
	script := "#!/bin/sh\nexec " + ourselves() + " rsh run \"$@\"\n"
	for _, name := range []string{agent, "ssh"} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700))
	}
	return dir, err
}

// environment is how each of them is told of its agent.
func environment(dir string, env []string, path string) []string {
	return append(env,
		"PATH="+dir+string(os.PathListSeparator)+path,
		leadExe+"="+ourselves(), "OMPI_MCA_plm_rsh_agent="+agent, "PRTE_MCA_plm_ssh_agent="+agent, "HYDRA_LAUNCHER=rsh", "HYDRA_LAUNCHER_EXEC="+agent,
	)
}

// lead is `fermi rsh lead`: it runs the program that starts all others, and when that ended well
// tells the other replicas that they are through. When it failed the platform ends them.
func lead(ctx context.Context, env func(string) string, args []string, s streams) (int, error) {
	p, err := here(env)
	if err != nil {
		return 0, err
	}
	dir, err := agents()
	defer os.RemoveAll(dir)
	if err != nil {
		return 0, err
	}
	// The launcher signals every process itself; we only stay to see how the program ends.
	deaf := make(chan os.Signal, 1)
	signal.Notify(deaf, passed...)
	defer signal.Stop(deaf)
	environ := environment(dir, os.Environ(), env("PATH"))
	file, err := exec.LookPath(args[0])
	if err != nil {
		return 127, err
	}
	cmd := exec.CommandContext(ctx, file, args[1:]...)
	cmd.Args[0], cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = args[0], environ, s.in, s.out, s.err
	if err := cmd.Start(); err != nil {
		return codeNoShell, err
	}
	_ = cmd.Wait()
	if code := exitCode(cmd.ProcessState); code != 0 {
		return code, nil
	}
	return 0, p.dismissAll(ctx, env)
}

func (p *place) dismissAll(ctx context.Context, env func(string) string) error {
	ctx, cancel := context.WithTimeout(ctx, patience(env))
	defer cancel()
	var wg sync.WaitGroup
	gate := make(chan struct{}, 64)
	errs := make([]error, len(p.hosts))
	for i, h := range p.hosts {
		if h.name == p.self {
			continue
		}
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			errs[i] = p.dismiss(ctx, h.address)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// serveHere is `fermi rsh serve`.
func serveHere(ctx context.Context, env func(string) string) error {
	p, err := here(env)
	if err != nil {
		return err
	}
	address, err := p.addressOf(p.self)
	if err != nil {
		return err
	}
	listener, err := listen(ctx, address)
	if err != nil {
		return err
	}
	dir, err := agents()
	defer os.RemoveAll(dir)
	if err != nil {
		return err
	}
	return (&server{tls: p.tls, env: environment(dir, os.Environ(), env("PATH"))}).serve(ctx, listener)
}
