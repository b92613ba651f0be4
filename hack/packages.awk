# Says how far a build is, from what "go build -v" and "go install -v" print: one line for 50 packages, and all that is no package.
/^[^ #:]+$/ { n++; if (n % 50 == 0) { print "  " n " packages compiled"; fflush() } next }
{ print; fflush() }
