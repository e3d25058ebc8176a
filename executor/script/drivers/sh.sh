# Runs handlers for the shell, each job in a subshell whose standard input is the payload. What it is told comes in lines
# on descriptor 3, and how jobs ended goes out on descriptor 4; docs/handlers.md has the lines.

# Handlers see none of the names that begin with __.
__decode() { # word, file
  case $1 in
    -) : >"$2" ;;
    *) printf %s "$1" | base64 -d >"$2" ;;
  esac
}

__encode() { # file
  if [ -s "$1" ]; then
    base64 <"$1" | tr -d '\n'
  else
    printf -- -
  fi
}

__text() { # text
  printf %s "$1" | base64 | tr -d '\n'
}

__mark() {
  printf '\036%s\036' "$__secret"
  printf '\036%s\036' "$__secret" >&2
}

# __source runs a script in this shell. When that ends, so does the process.
__source() { # file
  [ -s "$1" ] || return 0
  . "$1" </dev/null 3<&- 4>&-
}

__said() { # verb, exit status
  if [ "$2" = 0 ]; then
    printf '%s 200 -\n' "$1" >&4
  else
    printf '%s 500 %s\n' "$1" "$(__text "exit status $2")" >&4
  fi
}

__job() { # handler, then the words of the line
  __decode "$9" "$__dir/payload"
  : >"$__dir/result"
  (
    unset __secret
    HAULIER_JOB_ID=$3 HAULIER_TYPE=$4 HAULIER_QUEUE=$5 HAULIER_TENANT=$6 HAULIER_ATTEMPT=$7 HAULIER_RESULT=$__dir/result
    export HAULIER_JOB_ID HAULIER_TYPE HAULIER_QUEUE HAULIER_TENANT HAULIER_ATTEMPT HAULIER_RESULT
    __script=$__dir/$1.body
    shift $#
    . "$__script"
  ) <"$__dir/payload" 3<&- 4>&-
  __rc=$?
}

__dir=$PWD
IFS=' ' read -r __verb __version __secret <&3
printf 'hello 1\n' >&4
while IFS=' ' read -r __verb __a __b __c __d __e <&3; do
  case $__verb in
    handler)
      __decode "$__b" "$__dir/$__a.body"
      __decode "$__d" "$__dir/$__a.before-each"
      __decode "$__e" "$__dir/$__a.after-each"
      __decode "$__c" "$__dir/$__a.before"
      __source "$__dir/$__a.before"
      __said "loaded $__a" $?
      ;;
    batch)
      __handler=$__a __left=$__b
      __source "$__dir/$__handler.before-each"
      __began=$?
      __said begin $__began
      while [ "$__left" -gt 0 ]; do
        __left=$((__left - 1))
        IFS=' ' read -r __verb __place __id __type __queue __tenant __attempt __most __payload <&3
        [ "$__began" = 0 ] || continue
        __job "$__handler" "$__place" "$__id" "$__type" "$__queue" "$__tenant" "$__attempt" "$__most" "$__payload"
        [ "$__left" = 0 ] || __mark
        case $__rc in
          0) printf 'done %s 200 0 %s -\n' "$__place" "$(__encode "$__dir/result")" >&4 ;;
          75) printf 'done %s 100 0 - %s\n' "$__place" "$(__text 'exit status 75: asked to run again')" >&4 ;;
          65 | 66) printf 'done %s 400 0 - %s\n' "$__place" "$(__text "exit status $__rc: failed for good")" >&4 ;;
          *) printf 'done %s 500 0 - %s\n' "$__place" "$(__text "exit status $__rc")" >&4 ;;
        esac
      done
      __source "$__dir/$__handler.after-each"
      __rc=$?
      __mark
      __said end $__rc
      ;;
  esac
done
