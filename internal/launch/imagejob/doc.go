// Package imagejob is the program of image jobs: it builds, looks at and saves images, behind the wall of a replica.
//
// Place: layer 4, part of launch; a program of the tenant's that happens to be inside the binary. The launcher starts it like any other command: as the
// tenant, on the tenant's network, with the tenant's accounts as files. A build and a save are root of a user namespace there.
// Promise: it leaves what it found or why not as one small file among its outputs; what it makes is pushed whole or not at all; said twice it makes the
// same again. Enemies: a Dockerfile, a registry's words, a kill at any moment, two builds of a project at once.
package imagejob
