#!/bin/sh
# Installs an unpacked archive of Tasuki, or its .tar.gz, for the user who runs it, and takes it out
# again. It downloads nothing, needs no root, and leaves data and configuration alone.
#
#   install.sh [--prefix DIR] [ARCHIVE]     ARCHIVE: tasuki-….tar.gz or an unpacked one
#                                           [default: the one that this script lies in]
#   install.sh --uninstall [--prefix DIR]   removes what it installed
#
# DIR is ~/.local unless it is given. What was written is listed in DIR/share/doc/tasuki/installed.
set -eu
umask 022

fail() {
    echo "error: $*" >&2
    exit 1
}

usage() {
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p;}' "$0"
}

prefix=
archive=
uninstall=
while [ $# -gt 0 ]; do
    case $1 in
        --prefix)
            [ $# -gt 1 ] || fail '--prefix takes a directory'
            prefix=$2
            shift
            ;;
        --prefix=*) prefix=${1#--prefix=} ;;
        --uninstall) uninstall=yes ;;
        -h | --help) usage && exit ;;
        -*) fail "unknown option $1; see --help" ;;
        *)
            [ -z "$archive" ] || fail 'one archive at a time'
            archive=$1
            ;;
    esac
    shift
done
# In an archive, and where it was installed, this script lies in share/doc/tasuki.
own=$(cd "$(dirname "$0")" && pwd -P)
own=${own%/share/doc/tasuki}
if [ -z "$prefix" ] && [ -f "$own/share/doc/tasuki/installed" ]; then
    prefix=$own
fi
[ -n "$prefix" ] || prefix=${HOME:?is not set; name a directory with --prefix DIR}/.local
case $prefix in
    /*) ;;
    *) prefix=$PWD/$prefix ;;
esac
# Units and a line of the list each hold one path.
case $prefix in
    *'
'*) fail 'a directory with a line break in its name is not supported' ;;
esac
list=$prefix/share/doc/tasuki/installed

# remove LIST: the files it names, then the directories that are empty without them.
remove() {
    while IFS= read -r file; do
        case $file in
            /* | *..*) fail "$1 names $file, which it cannot have installed; nothing more is removed" ;;
        esac
        rm -f "$prefix/$file"
        directory=$(dirname "$file")
        while [ "$directory" != . ] && rmdir "$prefix/$directory" 2> /dev/null; do
            directory=$(dirname "$directory")
        done
    done < "$1"
}

if [ -n "$uninstall" ]; then
    [ -z "$archive" ] || fail '--uninstall takes no archive'
    [ -f "$list" ] || fail "nothing is installed in $prefix by this script: $list does not exist"
    old=$(mktemp)
    trap 'rm -f "$old"' EXIT
    # It lists itself.
    cat "$list" > "$old"
    remove "$old"
    echo "Removed Tasuki from $prefix. Data and configuration are kept."
    exit
fi

work=
trap '[ -z "$work" ] || rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
case $archive in
    '')
        archive=$own
        if [ ! -f "$own/bin/tasuki" ] || [ -f "$own/share/doc/tasuki/installed" ]; then
            fail 'name the archive: install.sh tasuki-….tar.gz'
        fi
        ;;
    *.tar.gz)
        [ -f "$archive" ] || fail "$archive does not exist"
        if [ -f "$archive.sha256" ]; then
            read -r expected _ < "$archive.sha256" || :
            if command -v sha256sum > /dev/null; then
                actual=$(sha256sum < "$archive")
            else
                actual=$(shasum -a 256 < "$archive")
            fi
            [ "${actual%% *}" = "$expected" ] \
                || fail "$archive is not what $archive.sha256 says; nothing was installed"
        else
            echo "note: $archive.sha256 is not there, so the archive was not checked" >&2
        fi
        work=$(mktemp -d)
        tar -xzf "$archive" -C "$work"
        archive=$(echo "$work"/*)
        ;;
esac
[ -f "$archive/bin/tasuki" ] || fail "$archive is no archive of Tasuki: bin/tasuki is missing"
archive=$(cd "$archive" && pwd)
"$archive/bin/tasuki" --version > /dev/null 2>&1 \
    || fail "the archive's programs do not run on this machine; nothing was installed"

# What a user's own directory has no use for: units of the whole system.
files=$(cd "$archive" && find . -type f ! -path './lib/systemd/system/*' | sed 's|^\./||' | sort)
# Units of users are looked for in share, not in lib; share/tasuki is where a user's data is.
place() {
    case $1 in
        lib/systemd/user/*) echo "share/systemd/user/${1##*/}" ;;
        share/tasuki/*) echo "share/doc/tasuki/${1##*/}" ;;
        *) echo "$1" ;;
    esac
}

# Nothing is written over that this script did not write.
echo "$files" | while IFS= read -r file; do
    to=$(place "$file")
    if [ -e "$prefix/$to" ] && ! grep -qxF "$to" "$list" 2> /dev/null; then
        fail "$prefix/$to is there already, and not from this script; nothing was installed"
    fi
done

mkdir -p "$(dirname "$list")"
new=$list.new
{
    echo share/doc/tasuki/installed
    echo "$files" | while IFS= read -r file; do place "$file"; done
} > "$new"
# Whenever this is interrupted, the list has all that is there.
if [ -f "$list" ]; then
    grep -vxF -f "$new" "$list" > "$list.old" || :
    cat "$new" "$list.old" > "$list.both"
    mv "$list.both" "$list"
    remove "$list.old"
    rm "$list.old"
else
    cp "$new" "$list"
fi
echo "$files" | while IFS= read -r file; do
    to=$prefix/$(place "$file")
    mkdir -p "$(dirname "$to")"
    # A program that runs goes on with its old file.
    rm -f "$to"
    case $file in
        *.service)
            # In a unit, \ quotes and % begins a specifier; in sed, \, & and | mean something.
            program=$(printf '%s' "$prefix/bin/" | sed 's/[\\"]/\\&/g; s/%/%%/g; s/[\\&|]/\\&/g')
            sed "s|^ExecStart=/usr/bin/\([a-z-]*\)|ExecStart=\"$program\1\"|" "$archive/$file" > "$to"
            ;;
        *) cp -p "$archive/$file" "$to" ;;
    esac
done

mv "$new" "$list"

version=$("$prefix/bin/tasuki" --version)
echo "Installed $version in $prefix. \`$prefix/share/doc/tasuki/install.sh --uninstall\` removes it."
case :$PATH: in
    *:"$prefix/bin":*) ;;
    *) echo "$prefix/bin is not on your PATH. Add this line to your shell's profile:"
       echo "  export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
