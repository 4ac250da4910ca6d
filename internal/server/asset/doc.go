// Package asset is the room of datasets and models: their versions, how bytes come up and go down, what people see of them.
//
// Place: a room of the server, over the repository of chunks. Promise: a version never changes; a number is never used twice; what is in use is not
// deleted; nothing of another project is seen, not even whether it is there; bytes made by users never act in the console's name. Enemies: uploads
// cut in the middle and begun again, two at once, lists of files made by hand, a project that keeps more than it may.
package asset
