package kubeengine

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/fermi-cluster/fermi/internal/engine"
)

// Cache is a folder of nodes. Each project has one of its own in it, which the container that brings the launcher writes in, as root; the container of the
// user's processes sees of it the versions that the replica names, read-only.
type Cache struct {
	Dir  string // on nodes; "": there is none
	Most int64  // bytes that a project may have in it on a node; 0: half of the disk
	// Paths say where a version and its lock lie in a project's folder.
	Paths func(digest string) (place, lock string)
}

const (
	dirCache    = "/fermi-cache"
	volumeCache = "fermi-cache"
	lockExt     = ".lock" // of a lock, beside its version
)

// mount gives the pod of a replica what it needs of the cache.
func (c Cache) mount(pod *corev1.Pod, r engine.Replica) {
	digests := kept(r)
	if c.Dir == "" || len(digests) == 0 {
		return
	}
	made, root := corev1.HostPathDirectoryOrCreate, int64(0)
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: volumeCache, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: c.Dir, Type: &made}}})
	shelf := shelfOf(r.Project)
	first, main := &pod.Spec.InitContainers[0], &pod.Spec.Containers[0]
	first.Args = append(first.Args, "--cache", dirCache, "--cache-most", strconv.FormatInt(c.Most, 10))
	first.VolumeMounts = append(first.VolumeMounts, corev1.VolumeMount{Name: volumeCache, MountPath: dirCache, SubPath: shelf})
	first.SecurityContext.RunAsUser = &root // the folder is root's
	main.Command = append(main.Command, "--cache", dirCache)
	for _, digest := range digests {
		place, lock := c.Paths(digest)
		main.VolumeMounts = append(main.VolumeMounts,
			corev1.VolumeMount{Name: volumeCache, MountPath: path.Join(dirCache, digest), SubPath: path.Join(shelf, place), ReadOnly: true},
			corev1.VolumeMount{Name: volumeCache, MountPath: path.Join(dirCache, digest+lockExt), SubPath: path.Join(shelf, lock), ReadOnly: true})
	}
}

// kept are the versions of a replica whose bytes servers have.
func kept(r engine.Replica) (out []string) {
	for _, ref := range slices.Concat(r.Mounts.Datasets, r.Mounts.Models) {
		if ref.Source == nil && !slices.Contains(out, ref.Digest) {
			out = append(out, ref.Digest)
		}
	}
	return out
}

// shelfOf is the folder of a project: names may have letters that paths should not.
func shelfOf(project string) string {
	sum := sha256.Sum256([]byte(project))
	return hex.EncodeToString(sum[:])[:16]
}
