//! A list whose links are made before a lock is taken and dropped after it: nothing is taken from the heap in between.
//!
//! What never happens: recursion, however long the list.

/// One element, on the heap. It may be in a [`Chain`] or not.
#[derive(Debug)]
pub(super) struct Link<T>(Box<Place<T>>);

#[derive(Debug)]
struct Place<T> {
    element: T,
    next: Option<Link<T>>,
}

impl<T> Link<T> {
    pub(super) fn new(element: T) -> Link<T> {
        Link(Box::new(Place { element, next: None }))
    }

    pub(super) fn get(&self) -> &T {
        &self.0.element
    }

    pub(super) fn get_mut(&mut self) -> &mut T {
        &mut self.0.element
    }
}

/// The list. The newest element comes first.
#[derive(Debug)]
pub(super) struct Chain<T> {
    first: Option<Link<T>>,
}

impl<T> Chain<T> {
    pub(super) const fn new() -> Chain<T> {
        Chain { first: None }
    }

    pub(super) fn add(&mut self, mut link: Link<T>) {
        link.0.next = self.first.take();
        self.first = Some(link);
    }

    /// The first that is `wanted`.
    pub(super) fn find(&mut self, wanted: impl Fn(&T) -> bool) -> Option<&mut T> {
        let mut next = self.first.as_mut();
        while let Some(link) = next {
            if wanted(&link.0.element) {
                return Some(&mut link.0.element);
            }
            next = link.0.next.as_mut();
        }
        None
    }

    /// Takes the first that is `wanted` out.
    pub(super) fn take(&mut self, wanted: impl Fn(&T) -> bool) -> Option<Link<T>> {
        let mut place = &mut self.first;
        while place.as_ref().is_some_and(|link| !wanted(&link.0.element)) {
            place = &mut place.as_mut()?.0.next;
        }
        let mut link = place.take()?;
        *place = link.0.next.take();
        Some(link)
    }
}

impl<T> Drop for Chain<T> {
    fn drop(&mut self) {
        while self.take(|_| true).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_come_and_go_in_any_order() {
        let mut chain = Chain::new();
        (1..=4).for_each(|number| chain.add(Link::new(number)));
        for gone in [3, 4, 1] {
            assert_eq!(chain.find(|number| *number == gone), Some(&mut { gone }));
            assert_eq!(chain.take(|number| *number == gone).map(|link| *link.get()), Some(gone));
            assert_eq!(chain.find(|number| *number == gone), None);
            assert!(chain.take(|number| *number == gone).is_none());
        }
        assert_eq!(chain.find(|_| true), Some(&mut 2));
        (0..1_000_000).for_each(|number| chain.add(Link::new(number)));
        drop(chain);
    }
}
