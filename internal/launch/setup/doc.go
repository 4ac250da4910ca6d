// Package setup makes what the processes of a replica find when they start: folders, memory, wall, network, image, code, secrets, and their
// environment. Home is where the replica lives, Enclosure stands around its processes, Supplies brings what has to be fetched.
//
// Place: layer 4, below the launcher.
// Promise: root makes things only in folders that no tenant can change; what a tenant named is opened by the steward, or by a chore that has
// become the tenant; nothing starts before it is whole.
// Enemies: links and names that a tenant chose, a registry or a repository that is away, an archive that is not what its digest says.
package setup
