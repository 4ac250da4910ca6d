package inside

const sysSetns = 268 // the package syscall has no name for it
