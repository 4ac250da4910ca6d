package setup

import (
	"context"
	"errors"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/chore"
	"github.com/fermi-cluster/fermi/internal/launch/inside"
	"github.com/fermi-cluster/fermi/internal/launch/layer"
	"github.com/fermi-cluster/fermi/internal/launch/process"
)

// fileLayer has what was written over an image, in the temporary folder of the replica.
const fileLayer = "fermi-layer.tar"

// BringLayer writes over the image what a layer begins with, or has what was written over it written down, as the replica's duty is.
func BringLayer(ctx context.Context, s *Supplies) error {
	switch l := s.at.over; {
	case l.kept != "":
		wall := s.at.layerWall()
		wall.Frozen, wall.Base = l.kept, layer.Base
		_, err := s.at.asRoot(ctx, wall, chore.Order{Peel: &chore.Peel{To: filepath.Join(s.at.Home.tmp(), fileLayer)}})
		return asStartFault(err)
	case l.begins != "":
		return asStartFault(cover(ctx, s))
	}
	return nil
}

// cover writes what the version has over the image.
func cover(ctx context.Context, s *Supplies) error {
	l, m := s.at.over, dataMount{AssetRef: *s.at.Home.Replica.HomeFrom}
	m.Path = HomeOf(s.at.Home.Dir, s.at.Home.Replica)
	if err := s.bringVersion(ctx, &m); err != nil {
		return err
	}
	wall := s.at.layerWall()
	wall.Layer, wall.Binds = l.used, append(wall.Binds, m.held.Root)
	_, err := s.at.asRoot(ctx, wall, chore.Order{Cover: &chore.Cover{From: m.held.Root}})
	if err == nil {
		err = l.laid()
	}
	if err == nil {
		s.notes.Notice("%s", fault.T("what was installed over the image is here", "在镜像之上安装的内容已就绪").Pack())
	}
	return errors.Join(err, m.held.Close())
}

// layerWall is the wall around a chore that is root of the image's user namespace.
func (e *Enclosure) layerWall() inside.Wall {
	wall := e.wall()
	wall.Root, wall.Stage, wall.Placed = e.image.Root, filepath.Join(e.Home.Dir, dirStage), nil
	e.over.number(&wall)
	return wall
}

// asRoot does a chore as root of a user namespace; it is given up with ctx.
func (e *Enclosure) asRoot(ctx context.Context, wall inside.Wall, o chore.Order) (chore.Result, error) {
	way, err := e.sendTo(wall, o, nil)
	if err != nil {
		return chore.Result{}, e.cantRun(err)
	}
	defer context.AfterFunc(ctx, way.kill)()
	r, err := way.result()
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case errors.Is(err, chore.ErrNoWord): // its program did not begin
		err = e.cantRun(err)
	}
	return r, err
}

// cantRun says that our program does not run in an image.
func (e *Enclosure) cantRun(err error) error {
	var no *inside.Refused
	if errors.As(err, &no) && no.Step == inside.StepLayer {
		return layerFault(e.Home.Replica, no)
	}
	return process.CantStart(process.CodeNotExecutable, err,
		"What was installed over the image %s can't be moved: Fermi's program does not run in it (it needs glibc 2.34 or newer); move without it: fermi env move %s --without-layer.",
		"无法迁移在镜像 %s 之上安装的内容：Fermi 的程序无法在其中运行（需要 glibc 2.34 或更高版本）；可不保留该内容进行迁移：fermi env move %s --without-layer。", e.Home.Replica.Image, e.Home.Replica.Task)
}

// startRooted starts this program again as who does chores, as root of a user namespace. Its end is told over the tree.
func startRooted(wall inside.Wall, env []string, program string, in, out, null uintptr) (tree *inside.Tree, handle int, err error) {
	tree, err = inside.Start(nil, wall, inside.Command{Args: []string{chore.Argv0}, File: process.OwnBinary, Env: env, Each: [][]string{nil}, Dir: "/", Program: program}, in, []inside.Pipes{{out, null}})
	if err != nil {
		return nil, 0, err
	}
	if handle, err = unix.PidfdOpen(tree.PID, 0); err != nil {
		_ = syscall.Kill(tree.PID, syscall.SIGKILL) // our own child, not yet reaped
		_, _ = syscall.Wait4(tree.PID, nil, 0, nil)
		return nil, 0, err
	}
	return tree, handle, nil
}
