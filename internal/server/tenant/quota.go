package tenant

import api "github.com/fermi-cluster/fermi/api/v1"

// Stored is what is kept for projects, in bytes. Its answers cost no look at a store.
type Stored interface {
	// Used fills the bytes of a project's usage in.
	Used(project *api.Project, into *api.ProjectUsage)
	// KeepArchive counts an archive of so many bytes that a project got, or refuses it with fault Full.
	KeepArchive(project *api.Project, bytes int64) error
	// RoomForCheckpoint refuses so many bytes more with fault Full.
	RoomForCheckpoint(project *api.Project, bytes int64) error
	// KeepAsset counts bytes of a dataset or model that a project is about to keep, or refuses them with fault Full. Negative bytes were not kept after all.
	KeepAsset(project *api.Project, bytes int64) error
	// RoomForAsset refuses so many bytes more with fault Full.
	RoomForAsset(project *api.Project, bytes int64) error
	// Forget says that all bytes of a task were deleted.
	Forget(taskID string)
}
